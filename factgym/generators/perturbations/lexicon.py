"""Word lists of the perturbations: closed-class words, verbs, opposites, names of places and people.

Short on purpose: the operators leave a word that is in no list alone.
"""

from __future__ import annotations

from factgym.generators.synthetic.grammar import MONTHS, listed, participle, third_person

CALENDAR = frozenset(
    (*MONTHS, "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday", "Christmas", "Easter")
)

FUNCTION_WORDS = frozenset(
    listed(
        "a an the this that these those it its he she his her hers they their them we our us you your i my me there"
        " here in on at by for from with of to into onto over under after before since until during between among"
        " against through about as if when while where which who whom whose what why how and or but nor not no yes so"
        " than then is are was were be been being am has have had do does did will would can could may might must"
        " shall should some any all every each both either neither many most much few several more less other another"
        " such only also one two three four five six seven eight nine ten first second third last next according"
        " because although though despite unlike like it's there's that's he's she's they're you're isn't don't"
    )
)
"""Words that begin with a capital only because a sentence does."""

VERBS = listed(
    "act address adopt advise agree aid aim allow announce appear apply appoint arrive attack attempt attend attract"
    " award bear beat become begin believe belong bite break bring broadcast build buy call cause celebrate change"
    " choose claim climb collaborate collect come compete complete compose conquer consist construct contain"
    " contribute contract control convert cost cover create cross cut debut decide declare defeat defend delay"
    " deliver demand deny depict derive describe design destroy develop die direct discover divide draw drink drive"
    " drop earn eat edit educate elect employ enable end endorse enjoy enter establish evolve examine exist expand"
    " explain explore express fall feature feed feel fight fill film finance find finish flee fly focus follow force"
    " form found gain get give go govern graduate grow happen head hear help hire hit hold host identify include"
    " increase influence inspire introduce invade invent invest join keep kill know lack last launch lead learn leave"
    " like list live locate look lose love maintain make manage manufacture marry mean meet move narrate need offer"
    " open operate organize originate own paint participate pass patent pay perform permit place plan play portray"
    " prefer prepare present preserve prevent print produce promote propose protect provide publish purchase pursue"
    " question raise reach read receive recognize record recover reduce refuse reject release remain remove rename"
    " replace report represent require resign return reveal rise rule run sail say score see sell send serve set"
    " settle share shoot show sign sing sit sleep speak spend stand star start state stay steal stop study succeed"
    " suffer suggest supply support surround survive take talk teach tell train transform translate travel turn use"
    " visit voice vote wait walk want watch wear win work write"
)
_IRREGULAR_PAST = {
    "bear": "bore", "beat": "beat", "become": "became", "begin": "began", "bite": "bit", "break": "broke",
    "bring": "brought", "broadcast": "broadcast", "build": "built", "buy": "bought", "choose": "chose",
    "come": "came", "cost": "cost", "cut": "cut", "draw": "drew", "drink": "drank", "drive": "drove", "eat": "ate",
    "fall": "fell", "feed": "fed", "feel": "felt", "fight": "fought", "find": "found", "flee": "fled", "fly": "flew",
    "get": "got", "give": "gave", "go": "went", "grow": "grew", "hear": "heard", "hit": "hit", "hold": "held",
    "keep": "kept", "know": "knew", "lead": "led", "leave": "left", "lose": "lost", "make": "made", "mean": "meant",
    "meet": "met", "pay": "paid", "read": "read", "rise": "rose", "run": "ran", "say": "said", "see": "saw",
    "sell": "sold", "send": "sent", "set": "set", "shoot": "shot", "show": "showed", "sing": "sang", "sit": "sat",
    "sleep": "slept", "speak": "spoke", "spend": "spent", "stand": "stood", "steal": "stole", "take": "took",
    "teach": "taught", "tell": "told", "wear": "wore", "win": "won", "write": "wrote", "star": "starred",
}  # fmt: skip
PAST = {verb: _IRREGULAR_PAST.get(verb) or participle(verb) for verb in VERBS}
THIRD = {verb: third_person(verb) for verb in VERBS}
BASE_OF_PAST = {past: verb for verb, past in sorted(PAST.items()) if past != verb}
BASE_OF_PAST["found"] = "find"
"""Past forms to base forms; a form that is its own base is indistinguishable from the present."""
BASE_OF_THIRD = {third: verb for verb, third in sorted(THIRD.items())}
AMBIGUOUS_VERBS = frozenset(
    listed(
        "found bore left lay fell felt saw rose set shot like likes means stars works plays shows states reports"
        " leaves films covers records lists forms awards votes places names"
    )
)
"""Forms that are as often something else."""

PARTICIPLES = {
    "directed", "produced", "created", "designed", "developed", "published", "founded", "established", "discovered",
    "invented", "portrayed", "composed", "edited", "hosted", "narrated", "recorded", "released", "painted", "built",
    "launched", "patented", "manufactured", "organized", "defeated", "conquered", "destroyed", "killed", "inspired",
}  # fmt: skip
"""Past forms that are their own participles, of verbs that take one object and make a passive easily."""

ANTONYM_PAIRS = (
    "first last", "largest smallest", "biggest smallest", "highest lowest", "longest shortest", "oldest youngest",
    "oldest newest", "best worst", "earliest latest", "larger smaller", "bigger smaller", "higher lower",
    "longer shorter", "older younger", "better worse", "more fewer", "most least",
    "increased decreased", "increases decreases", "increase decrease", "rose fell",
    "accepted rejected", "accepts rejects", "opened closed", "opens closes", "began ended", "begins ends",
    "started stopped", "allowed banned", "allows bans", "supported opposed", "supports opposes", "arrived left",
    "praised criticized", "loved hated", "loves hates", "northern southern",
    "eastern western", "north south", "east west", "northeast southwest", "northwest southeast", "before after",
    "successful unsuccessful", "legal illegal", "possible impossible", "public private", "professional amateur",
    "popular unpopular", "safe dangerous", "positive negative", "married unmarried",
    "fictional real", "male female", "major minor", "true false", "able unable", "likely unlikely",
    "retired active", "domestic foreign", "ancient modern", "rich poor", "strong weak", "heavy light",
    "wet dry", "indoor outdoor", "upper lower", "internal external", "permanent temporary",
    "always never", "inside outside", "above below", "related unrelated",
    "expensive cheap", "empty full", "easy difficult", "rural urban", "natural artificial", "independent dependent",
)  # fmt: skip
ANTONYMS: dict[str, str] = {}
for _first, _second in map(str.split, ANTONYM_PAIRS):
    ANTONYMS.setdefault(_first, _second)
    ANTONYMS.setdefault(_second, _first)

MALE = frozenset(
    listed(
        "Aaron Adam Alan Albert Alex Alexander Alfred Andrew Anthony Arnold Arthur Barack Ben Benjamin Bernard Bill"
        " Bob Brad Brian Bruce Carl Charles Chris Christopher Colin Dan Daniel David Dennis Derek Donald Doug Douglas"
        " Ed Eddie Edward Eric Ernest Frank Fred Gary Gene George Gerald Gordon Greg Harold Harry Henry Howard Hugh"
        " Ian Isaac Jack Jacob James Jason Jeff Jeffrey Jerry Jim Joe John Johnny Jon Jonathan Joseph Josh Justin"
        " Keith Ken Kenneth Kevin Larry Lars Leonard Leonardo Louis Luke Mark Martin Matt Matthew Michael Mike Neil"
        " Nick Oliver Oscar Patrick Paul Peter Phil Philip Ralph Randy Ray Richard Rick Rob Robert Roger Roman Ron"
        " Ronald Russell Ryan Sam Samuel Scott Sean Simon Stanley Stephen Steve Steven Ted Terry Theodore Thomas Tim"
        " Timothy Todd Tom Tony Vincent Walter Wayne William Winston Woody Zachary Marcus Marcellus Josef Fidel"
    )
)
FEMALE = frozenset(
    listed(
        "Alice Amanda Amelia Amy Andrea Angela Angelina Anna Anne Annie Ashley Audrey Barbara Beth Betty Britney Carol"
        " Caroline Catherine Celine Charlotte Christina Cindy Claire Cynthia Deborah Diana Diane Donna Doris Dorothy"
        " Elizabeth Ellen Emily Emma Eva Frances Gloria Grace Hannah Helen Hillary Irene Jane Janet Jennifer Jessica"
        " Joan Judy Julia Julie Karen Kate Katherine Kathleen Katy Kelly Kim Kirsten Laura Lauren Linda Lisa Lucy"
        " Madonna Margaret Maria Marie Marilyn Martha Mary Megan Melissa Mila Miley Natalie Nicole Nina Olivia Olympia"
        " Patricia Paula Rachel Rebecca Rihanna Rose Ruth Sally Sandra Sara Sarah Scarlett Sharon Shirley Sophia"
        " Susan Taylor Teresa Tina Vanessa Victoria Virginia Whitney Winona"
    )
)
MALE_WORDS = frozenset(listed("he him his himself actor king prince father son brother husband man boy actor's duke"))
FEMALE_WORDS = frozenset(
    listed("she her hers herself actress queen princess mother daughter sister wife woman girl actresses duchess")
)

COUNTRIES = listed(
    "Argentina Australia Austria Belgium Bolivia Brazil Bulgaria Canada Chile China Colombia Croatia Cuba Denmark"
    " Ecuador Egypt Ethiopia Finland France Germany Ghana Greece Hungary Iceland India Indonesia Iran Iraq Ireland"
    " Israel Italy Jamaica Japan Kenya Lebanon Malaysia Mexico Morocco Nepal Nigeria Norway Pakistan Peru Philippines"
    " Poland Portugal Romania Russia Serbia Singapore Slovakia Slovenia Spain Sweden Switzerland Syria Thailand"
    " Tunisia Turkey Uganda Ukraine Uruguay Venezuela Vietnam Zimbabwe"
)
DEMONYMS = listed(
    "Argentine Australian Austrian Belgian Brazilian Bulgarian Canadian Chilean Chinese Colombian Croatian Cuban"
    " Danish Dutch Egyptian Ethiopian Finnish French German Greek Hungarian Icelandic Indian Indonesian Iranian Irish"
    " Israeli Italian Jamaican Japanese Kenyan Korean Lebanese Malaysian Mexican Moroccan Nigerian Norwegian Pakistani"
    " Peruvian Polish Portuguese Romanian Russian Serbian Spanish Swedish Swiss Syrian Thai Turkish Ukrainian"
    " Vietnamese American British English Scottish Welsh"
)
SAFE_DEMONYM_DONORS = tuple(
    demonym for demonym in DEMONYMS if demonym not in ("American", "British", "English", "Scottish", "Welsh")
)
STATES = listed(
    "Alabama Alaska Arizona Arkansas California Colorado Connecticut Delaware Florida Hawaii Idaho Illinois Indiana"
    " Iowa Kansas Kentucky Louisiana Maine Maryland Massachusetts Michigan Minnesota Mississippi Missouri Montana"
    " Nebraska Nevada Ohio Oklahoma Oregon Pennsylvania Tennessee Texas Utah Vermont Wisconsin Wyoming"
)
CITIES = listed(
    "Amsterdam Athens Atlanta Baltimore Barcelona Berlin Boston Brussels Budapest Chicago Cleveland Copenhagen Dallas"
    " Denver Detroit Dublin Edinburgh Glasgow Hamburg Helsinki Houston Istanbul Lisbon Liverpool London Madrid"
    " Manchester Melbourne Memphis Miami Milan Montreal Moscow Mumbai Munich Nashville Oslo Ottawa Paris Philadelphia"
    " Phoenix Portland Prague Rome Rotterdam Seattle Seoul Stockholm Sydney Tokyo Toronto Vancouver Vienna Warsaw"
    " Zurich"
)
NO_ANCHOR = frozenset(
    listed(
        "America Europe Africa Asia European African Asian Jewish Muslim Christian Hindu Buddhist Catholic United"
        " States US UK"
    )
)
"""Names so wide that a source implies them without naming them."""

GAZETTEER: dict[str, tuple[str, ...]] = {
    "country": COUNTRIES,
    "demonym": SAFE_DEMONYM_DONORS,
    "state": STATES,
    "city": CITIES,
}
