"""The lexicon that all themes share. One line per entry, columns separated by ``|``."""

from __future__ import annotations

from typing import NamedTuple


class Name(NamedTuple):
    """A person's name. gender: f or m."""

    en: str
    zh: str
    gender: str


class Verb(NamedTuple):
    """A verb that takes a thing as its object. part: past participle."""

    base: str
    third: str
    past: str
    part: str
    zh: str


class Doing(NamedTuple):
    """A verb phrase without object."""

    base: str
    third: str
    past: str
    zh: str


class Pair(NamedTuple):
    """The same phrase in both languages."""

    en: str
    zh: str


class Happening(NamedTuple):
    """Something that nobody does."""

    present: str
    past: str
    zh: str


def rows(text: str) -> list[list[str]]:
    """The cells of a table in the form of this module."""
    return [[cell.strip() for cell in line.split("|")] for line in text.strip().splitlines()]


NAMES = [
    Name(*row)
    for row in rows("""
Anna|安娜|f
Peter|彼得|m
Mei|小梅|f
Tom|汤姆|m
Clara|克拉拉|f
Jun|阿俊|m
Rosa|罗莎|f
David|大卫|m
Lin|林林|f
Hugo|雨果|m
Nora|诺拉|f
Wei|阿伟|m
Ivy|艾薇|f
Oscar|奥斯卡|m
Lan|兰兰|f
Felix|菲利|m
Sara|莎拉|f
Bo|阿波|m
Greta|格蕾塔|f
Karl|卡尔|m
Yun|云云|f
Victor|维克多|m
Dora|朵拉|f
Ming|明明|m
Helen|海伦|f
Simon|西蒙|m
Qing|青青|f
Ralph|拉尔夫|m
Wanda|旺达|f
Leo|利奥|m
Xia|小夏|f
Martin|马丁|m
""")
]

VERBS = [
    Verb(*row)
    for row in rows("""
carry|carries|carried|carried|搬走
count|counts|counted|counted|清点好
clean|cleans|cleaned|cleaned|擦干净
repair|repairs|repaired|repaired|修好
find|finds|found|found|找到
move|moves|moved|moved|挪开
check|checks|checked|checked|检查好
sell|sells|sold|sold|卖掉
hide|hides|hid|hidden|藏起来
bring|brings|brought|brought|带来
draw|draws|drew|drawn|画下来
weigh|weighs|weighed|weighed|称好
choose|chooses|chose|chosen|挑出来
lose|loses|lost|lost|弄丢
watch|watches|watched|watched|看管好
cover|covers|covered|covered|盖好
break|breaks|broke|broken|打破
borrow|borrows|borrowed|borrowed|借走
mark|marks|marked|marked|做上记号
show|shows|showed|shown|拿出来
wrap|wraps|wrapped|wrapped|包好
forget|forgets|forgot|forgotten|忘掉
describe|describes|described|described|描述出来
exchange|exchanges|exchanged|exchanged|换掉
""")
]

DOINGS = [
    Doing(*row)
    for row in rows("""
wait|waits|waited|等了一会儿
laugh|laughs|laughed|笑了起来
sit down|sits down|sat down|坐了下来
go home|goes home|went home|回家去了
drink tea|drinks tea|drank tea|喝了一杯茶
sing a song|sings a song|sang a song|唱了一首歌
look around|looks around|looked around|四处看了看
fall asleep|falls asleep|fell asleep|睡着了
write a letter|writes a letter|wrote a letter|写了一封信
begin again|begins again|began again|从头做起
tell a story|tells a story|told a story|讲了一个故事
close the door|closes the door|closed the door|关上了门
say nothing|says nothing|said nothing|什么也没说
light a fire|lights a fire|lit a fire|点起了火
ask for help|asks for help|asked for help|请人帮忙
stand still|stands still|stood still|站住不动
""")
]

ADJECTIVES = [
    Pair(*row)
    for row in rows("""
old|旧
small|小
heavy|沉重
new|崭新
red|红色
clean|干净
round|圆形
broken|破损
blue|蓝色
simple|简单
bright|明亮
cheap|便宜
narrow|细长
empty|空空
strange|奇怪
white|白色
rough|粗糙
precious|珍贵
""")
]

FEELINGS = [
    Pair(*row)
    for row in rows("""
tired|累
glad|高兴
hungry|饿
calm|平静
worried|担心
proud|骄傲
curious|好奇
angry|生气
cold|冷
busy|忙
lonely|孤单
patient|耐心
surprised|吃惊
satisfied|满意
""")
]

MANNERS = [
    Pair(*row)
    for row in rows("""
slowly|慢慢地
carefully|小心地
quickly|很快地
quietly|悄悄地
at once|马上
gladly|高兴地
alone|独自
without a word|一言不发地
by hand|亲手
with great effort|费力地
as usual|照常
in secret|偷偷地
""")
]

TIMES = [
    Pair(*row)
    for row in rows("""
in the morning|早上
in the evening|傍晚
after lunch|午饭后
at noon|中午
before sunrise|日出前
late at night|深夜
on Monday|星期一
in spring|春天
on the third day|第三天
on Friday|星期五
in winter|冬天
an hour later|一个小时后
on Sunday|星期天
in the first week|第一周
at the end of May|五月底
in autumn|秋天
""")
]

HAPPENINGS = [
    Happening(*row)
    for row in rows("""
it rains|it rained|下雨了
the wind turns|the wind turned|风向变了
the sun shines|the sun shone|太阳出来了
a bell rings|a bell rang|钟响了
the rain stops|the rain stopped|雨停了
snow falls|snow fell|下雪了
the light goes out|the light went out|灯灭了
a dog barks|a dog barked|狗叫起来了
the fog lifts|the fog lifted|雾散了
everything is quiet|everything was quiet|四周很安静
the moon rises|the moon rose|月亮升起来了
guests arrive|guests arrived|客人来了
a storm comes|a storm came|暴风雨来了
the water freezes|the water froze|水结冰了
""")
]

DEGREES = [
    Pair(*row)
    for row in rows("very|很\na little|有点儿\nrather|相当\ntruly|真的很\nnot at all|一点也不")
]

# Index: the number. The largest is `runner.data.language.story.MOST`.
_NUMBERS = rows("""
no|零
one|一
two|两
three|三
four|四
five|五
six|六
seven|七
eight|八
nine|九
ten|十
eleven|十一
twelve|十二
thirteen|十三
fourteen|十四
fifteen|十五
sixteen|十六
seventeen|十七
eighteen|十八
nineteen|十九
twenty|二十
""")
NUMBERS_EN = [row[0] for row in _NUMBERS]
NUMBERS_ZH = [row[1] for row in _NUMBERS]
