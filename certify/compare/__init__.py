"""Two loss files of anyone's runs, side by side, and what they can carry."""
