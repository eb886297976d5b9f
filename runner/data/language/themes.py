"""The themes: each has its own places, roles, things and verbs.

A table holds, in this order, one line ``NAME|name in Chinese``, four places, four roles, eight
things (singular, plural, Chinese, measure word) and four verbs.
"""

from __future__ import annotations

from typing import NamedTuple

from runner.data.language.words import Pair, Verb, rows


class Thing(NamedTuple):
    """A countable thing. measure: the Chinese measure word that goes with it."""

    one: str
    many: str
    zh: str
    measure: str


class Theme(NamedTuple):
    """What a document is about. places: with preposition (English), for 在 (Chinese)."""

    name: Pair
    places: list[Pair]
    roles: list[Pair]
    things: list[Thing]
    verbs: list[Verb]


_TABLES = """
harbour|港口
on the pier|码头上
in the boat|船里
near the lighthouse|灯塔旁边
behind the sheds|棚屋后面
keeper|看守人
fisher|渔民
pilot|领航员
sailor|水手
lamp|lamps|灯|盏
rope|ropes|绳子|根
barrel|barrels|木桶|只
net|nets|渔网|张
anchor|anchors|锚|个
sail|sails|帆|面
oar|oars|桨|支
flag|flags|旗子|面
tie|ties|tied|tied|系好
lower|lowers|lowered|lowered|放下来
dry|dries|dried|dried|晒干
unload|unloads|unloaded|unloaded|卸下来
*
garden|花园
under the apple tree|苹果树下
by the pond|池塘边
in the greenhouse|温室里
along the wall|墙边
gardener|园丁
visitor|游客
painter|画家
neighbour|邻居
rose|roses|玫瑰|朵
pear|pears|梨|个
bench|benches|长椅|张
seed|seeds|种子|粒
basket|baskets|篮子|个
bush|bushes|灌木|丛
spade|spades|铁锹|把
pot|pots|花盆|个
plant|plants|planted|planted|种下去
water|waters|watered|watered|浇透
pick|picks|picked|picked|摘下来
cut|cuts|cut|cut|剪短
*
workshop|作坊
on the workbench|工作台上
in the drawer|抽屉里
next to the oven|炉子旁边
under the stairs|楼梯下
carpenter|木匠
apprentice|学徒
smith|铁匠
customer|顾客
hammer|hammers|锤子|把
nail|nails|钉子|颗
chair|chairs|椅子|把
board|boards|木板|块
wheel|wheels|轮子|个
key|keys|钥匙|把
clock|clocks|钟|座
saw|saws|锯子|把
polish|polishes|polished|polished|磨光
measure|measures|measured|measured|量好
build|builds|built|built|做出来
bend|bends|bent|bent|弄弯
*
market|集市
at the corner|街角处
in front of the gate|大门前
beside the fountain|喷泉旁边
in the tent|帐篷里
trader|商人
baker|面包师
porter|搬运工
clerk|店员
melon|melons|西瓜|个
coin|coins|硬币|枚
cloth|cloths|布|块
fish|fishes|鱼|条
egg|eggs|鸡蛋|个
bottle|bottles|瓶子|个
carpet|carpets|地毯|条
hat|hats|帽子|顶
buy|buys|bought|bought|买下来
praise|praises|praised|praised|夸遍
offer|offers|offered|offered|摆出来
pay for|pays for|paid for|paid for|付清
*
railway|铁路
on the platform|站台上
inside the tunnel|隧道里
at the last station|终点站处
across the bridge|桥对面
driver|司机
conductor|列车员
traveller|旅客
engineer|工程师
ticket|tickets|车票|张
wagon|wagons|车厢|节
suitcase|suitcases|箱子|只
signal|signals|信号灯|盏
map|maps|地图|张
whistle|whistles|哨子|个
engine|engines|机车|台
timetable|timetables|时刻表|份
stamp|stamps|stamped|stamped|盖上章
couple|couples|coupled|coupled|连接起来
inspect|inspects|inspected|inspected|查看好
load|loads|loaded|loaded|装上车
*
kitchen|厨房
on the table|桌子上
in the cupboard|柜子里
over the fire|火上
by the window|窗边
cook|厨师
waiter|服务员
guest|客人
helper|帮手
bowl|bowls|碗|只
cake|cakes|蛋糕|块
knife|knives|刀|把
dumpling|dumplings|饺子|个
onion|onions|洋葱|个
plate|plates|盘子|只
spoon|spoons|勺子|把
noodle|noodles|面条|根
cook|cooks|cooked|cooked|煮熟
taste|tastes|tasted|tasted|尝遍
slice|slices|sliced|sliced|切开
serve|serves|served|served|端上来
*
library|图书馆
on the top shelf|书架顶上
in the reading room|阅览室里
below the ladder|梯子下
beside the desk|书桌旁边
librarian|图书管理员
student|学生
teacher|老师
writer|作家
book|books|书|本
letter|letters|信|封
picture|pictures|图画|幅
pencil|pencils|铅笔|支
dictionary|dictionaries|词典|部
card|cards|卡片|张
poem|poems|诗|首
scroll|scrolls|卷轴|幅
read|reads|read|read|读完
copy|copies|copied|copied|抄下来
lend|lends|lent|lent|借出去
translate|translates|translated|translated|翻译出来
*
mountain|高山
at the summit|山顶上
in the hut|小屋里
down in the valley|山谷里
on the narrow path|小路上
guide|向导
hunter|猎人
climber|登山者
monk|和尚
stone|stones|石头|块
blanket|blankets|毯子|条
candle|candles|蜡烛|支
axe|axes|斧头|把
goat|goats|山羊|只
log|logs|木头|根
pine|pines|松树|棵
boot|boots|靴子|只
split|splits|split|split|劈开
lift|lifts|lifted|lifted|举起来
push|pushes|pushed|pushed|推下去
drop|drops|dropped|dropped|丢下
*
orchestra|乐团
on the stage|舞台上
in the hall|大厅里
behind the curtain|幕布后面
in the front row|第一排里
musician|音乐家
singer|歌手
dancer|舞者
composer|作曲家
violin|violins|小提琴|把
drum|drums|鼓|面
flute|flutes|笛子|支
song|songs|歌曲|首
mask|masks|面具|个
costume|costumes|戏服|件
string|strings|琴弦|根
trumpet|trumpets|小号|支
play|plays|played|played|演奏好
tune|tunes|tuned|tuned|调准
practise|practises|practised|practised|练熟
return|returns|returned|returned|还回去
*
clinic|诊所
in the waiting room|候诊室里
beside the bed|病床旁边
at the front desk|前台处
down the corridor|走廊里
doctor|医生
nurse|护士
patient|病人
chemist|药剂师
pill|pills|药片|片
bandage|bandages|绷带|卷
needle|needles|针|根
chart|charts|病历|份
pillow|pillows|枕头|个
towel|towels|毛巾|条
jar|jars|药罐|个
mirror|mirrors|镜子|面
order|orders|ordered|ordered|订好
label|labels|labelled|labelled|贴上标签
boil|boils|boiled|boiled|煮沸
fold|folds|folded|folded|叠好
*
observatory|天文台
under the dome|圆顶下
on the roof|屋顶上
in the archive|档案室里
beside the telescope|望远镜旁边
astronomer|天文学家
assistant|助手
guard|保安
inventor|发明家
star|stars|星星|颗
lens|lenses|镜片|块
table|tables|表格|张
comet|comets|彗星|颗
notebook|notebooks|笔记本|本
battery|batteries|电池|节
photograph|photographs|照片|张
planet|planets|行星|颗
observe|observes|observed|observed|观测好
name|names|named|named|取好名字
record|records|recorded|recorded|记录下来
study|studies|studied|studied|研究透
*
farm|农场
in the barn|谷仓里
beyond the fields|田野那边
at the well|井边
in the stable|马厩里
farmer|农民
shepherd|牧羊人
miller|磨坊主
cousin|表亲
sheep|sheep|羊|只
horse|horses|马|匹
sack|sacks|麻袋|只
cow|cows|奶牛|头
hen|hens|母鸡|只
bucket|buckets|水桶|只
cart|carts|大车|辆
goose|geese|鹅|只
feed|feeds|fed|fed|喂饱
wash|washes|washed|washed|洗干净
chase|chases|chased|chased|赶走
fetch|fetches|fetched|fetched|领回来
"""


def _theme(table: str) -> Theme:
    cells = rows(table)
    return Theme(
        Pair(*cells[0]),
        [Pair(*row) for row in cells[1:5]],
        [Pair(*row) for row in cells[5:9]],
        [Thing(*row) for row in cells[9:17]],
        [Verb(*row) for row in cells[17:21]],
    )


THEMES = [_theme(table) for table in _TABLES.split("*")]
