"""ascend-certify: does a training stack fit together, and is a recipe as good as the reference?"""

__version__ = "0.1.0"
