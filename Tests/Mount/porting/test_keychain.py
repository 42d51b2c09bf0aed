"""SecItemAdd and the other keychain calls on a mount before first unlock, unlocked and locked."""

import functools
import os
import subprocess

import harness

SUCCESS, PARAM, UNIMPLEMENTED, NOT_AVAILABLE, DUPLICATE, NOT_FOUND, TOO_LARGE, NO_SUCH_KEY, CLOSED = (
    0, -50, -4, -25291, -25299, -25300, -25302, -25303, -25308)


def program():
    """The built porting-keychain: beside the program under test, else built now."""
    builds = [os.path.join(harness.REPOSITORY, ".build", configuration) for configuration in ("release", "debug")]
    for place in (os.path.dirname(harness.binary()), *builds):
        path = os.path.join(place, "porting-keychain")
        if os.path.exists(path):
            return path
    harness.run("swift", "build", "--product", "porting-keychain", cwd=harness.REPOSITORY, timeout=290)
    return os.path.join(builds[1], "porting-keychain")


class Keychain:
    """The program, running; a question a line."""

    def __init__(self, *words, home=None):
        environment = {**os.environ, **({"HOME": home} if home else {})}
        self.process = subprocess.Popen([program(), *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                        env=environment)

    def __call__(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().rstrip("\n")

    def answers(self, environment, rows):
        """Compares the answer of each line, in this order."""
        for line, answer in rows:
            environment.cell(line[:80], answer, self(line))

    def close(self):
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()


def on_a_mount(test):
    """Gives a test a mount and the program that runs on it."""
    @functools.wraps(test)
    def run(environment):
        mount = environment.mount()
        ask = Keychain(mount.path)
        test(environment, mount, ask)
        ask.close()
    return run


def attributes(kind="genp", dates=2, **given):
    """How porting-keychain shows the attributes of an item: those given, and what an item of the kind has without them."""
    empty = {"genp": {"acct": "", "svce": ""},
             "inet": {"acct": "", "atyp": "", "path": "", "port": "#0", "ptcl": "", "sdmn": "", "srvr": ""}}
    shown = {"agrp": "protectfs.default", "pdmn": "ak", "sync": "#0", **empty.get(kind, {}), **given, "class": kind}
    return "{" + ",".join(f"{key}={shown[key]}" for key in sorted(shown)) + "}" + (f"dates{dates}" if dates else "")


def test_example(environment):
    """Add and read, as the documents write it: unlocked, locked, before first unlock."""
    mount = environment.mount()
    ask = Keychain(mount.path)
    environment.cell("UNL add", f"{SUCCESS}", ask("save me secret"))
    environment.cell("UNL read", f"{SUCCESS} secret", ask("read me"))
    environment.cell("UNL again", f"{DUPLICATE}", ask("save me other"))
    environment.cell("UNL delete, then add", f"{SUCCESS}", ask("replace me newer"))
    environment.cell("UNL what there is then", f"{SUCCESS} newer", ask("read me"))
    environment.cell("UNL nobody", f"{NOT_FOUND} nil", ask("read you"))
    mount.lock()
    environment.cell("LCK read", f"{CLOSED} nil", ask("read me"))
    environment.cell("LCK add", f"{CLOSED}", ask("save you secret"))
    environment.cell("LCK nobody", f"{NOT_FOUND} nil", ask("read you"))
    mount.unlock()
    environment.cell("UNL once more", f"{SUCCESS} newer", ask("read me"))
    ask.close()
    mount = environment.remount(mount, unlock=False)
    ask = Keychain(mount.path)
    environment.cell("BFU read", f"{CLOSED} nil", ask("read me"))
    environment.cell("BFU add", f"{CLOSED}", ask("save you secret"))
    environment.cell("BFU nobody", f"{NOT_FOUND} nil", ask("read you"))
    environment.cell("BFU delete, then add", f"{CLOSED}", ask("replace you secret"))
    mount.unlock()
    environment.cell("unlocked again", f"{SUCCESS} newer", ask("read me"))
    ask.close()


ACCESSIBLE = {"ak": "A", "aku": "A", "akpu": "A", "ck": "C", "cku": "C", "dk": "D", "dku": "D"}


def test_accessible(environment):
    """Each accessibility is a class; reading, changing, adding and deleting by state; attributes in every state."""
    mount = environment.mount()
    ask = Keychain(mount.path)
    for word, letter in ACCESSIBLE.items():
        environment.cell(f"add {word}", f"{SUCCESS} nil", ask(f"add class=genp acct={word} pdmn={word} v_Data=$of-{word}"))
        environment.cell(f"class of {word}", 1, [harness.get_class(entry.path) for entry in os.scandir(
            mount / ".secrets/items")].count(harness.CLASSES[letter]) - sum(
                ACCESSIBLE[other] == letter for other in list(ACCESSIBLE)[:list(ACCESSIBLE).index(word)]))
    open_in = {"UNL": "ACD", "LCK": "CD", "BFU": "D"}

    def judge(state):
        for word, letter in ACCESSIBLE.items():
            is_open = letter in open_in[state]
            name = f"{state} {word}"
            environment.cell(f"{name} read", f"{SUCCESS} $of-{word}" if is_open else f"{CLOSED} nil",
                             ask(f"copy class=genp acct={word} r_Data=!true"))
            environment.cell(f"{name} attributes",
                             f"{SUCCESS} {attributes(acct=word, pdmn=word)}",
                             ask(f"copy class=genp acct={word} r_Attributes=!true"))
            environment.cell(f"{name} update", str(SUCCESS if is_open else CLOSED),
                             ask(f"update class=genp acct={word} to v_Data=$of-{word}"))
            environment.cell(f"{name} add", f"{SUCCESS if is_open else CLOSED} nil",
                             ask(f"add class=genp acct=new pdmn={word} v_Data=$x"))
            environment.cell(f"{name} delete", str(SUCCESS if is_open else NOT_FOUND), ask("delete class=genp acct=new"))
        environment.cell(f"{state} nothing staged", [], os.listdir(mount / ".secrets/staging"))

    judge("UNL")
    mount.lock()
    judge("LCK")
    environment.cell("LCK delete what is closed", str(SUCCESS), ask("delete class=genp acct=akpu"))
    environment.cell("LCK deleted", f"{NOT_FOUND} nil", ask("copy class=genp acct=akpu"))
    mount.unlock()
    ask("add class=genp acct=akpu pdmn=akpu v_Data=$of-akpu")
    ask.close()
    mount = environment.remount(mount, unlock=False)
    ask = Keychain(mount.path)
    judge("BFU")
    ask.close()


@on_a_mount
def test_queries(environment, mount, ask):
    """Matching, limits, forms of results, updates, and codes for what makes no sense."""
    environment.cell("nothing there", f"{NOT_FOUND} nil", ask("copy class=genp r_Data=!true"))
    environment.cell("nothing to delete", str(NOT_FOUND), ask("delete class=genp"))
    environment.cell("add, data wanted", f"{SUCCESS} $1", ask("add class=genp acct=a svce=s v_Data=$1 r_Data=!true"))
    environment.cell("another service", f"{SUCCESS} nil", ask("add class=genp acct=a svce=t v_Data=$2 labl=Tee invi=!true"))
    environment.cell("internet", f"{SUCCESS} nil",
                     ask("add class=inet acct=a srvr=example.org ptcl=htps port=#443 path=/p v_Data=$3 crtr=#7"))
    environment.cell("another port", f"{SUCCESS} nil", ask("add class=inet acct=a srvr=example.org ptcl=htps port=#444 path=/p"))
    ask.answers(environment, (
        ("copy class=genp acct=a svce=t r_Data=!true", f"{SUCCESS} $2"),
        ("copy class=genp labl=tee", f"{NOT_FOUND} nil"),
        ("copy class=genp labl=tee m_CaseInsensitive=!true", f"{SUCCESS} nil"),
        ("copy class=genp m_Limit=m_LimitAll r_Data=!true", f"{SUCCESS} [$1;$2]"),
        ("copy class=genp m_Limit=#5 svce=s r_Data=!true", f"{SUCCESS} [$1]"),
        ("copy class=inet port=#443 r_Data=!true r_Attributes=!true",
         f"{SUCCESS} " + attributes("inet", acct="a", crtr="#7", path="/p", port="#443", ptcl="htps", srvr="example.org",
                                    v_Data="$3")),
        ("copy class=inet port=#444 r_Data=!true", f"{SUCCESS} $"),
        ("copy class=genp svce=t pdmn=ck", f"{NOT_FOUND} nil"),
        ("update class=genp svce=t to svce=s", str(DUPLICATE)),
        ("update class=genp svce=t to svce=u v_Data=$4 pdmn=cku", str(SUCCESS)),
        ("copy class=genp svce=t", f"{NOT_FOUND} nil"),
        ("copy class=genp svce=u r_Data=!true", f"{SUCCESS} $4"),
        ("copy class=genp svce=u r_Attributes=!true",
         f"{SUCCESS} " + attributes(acct="a", invi="#1", labl="Tee", pdmn="cku", svce="u")),
        ("update class=genp svce=u to labl=Other", str(SUCCESS)),
        ("copy class=genp svce=u r_Data=!true", f"{SUCCESS} $4"),
        ("update class=genp svce=none to labl=x", str(NOT_FOUND)),
        ("update class=genp svce=u to class=inet", str(PARAM)),
        ("add acct=a v_Data=$1", f"{PARAM} nil"),
        ("add class=genp acct=b pdmn=never", f"{PARAM} nil"),
        ("add class=cert acct=b", f"{NO_SUCH_KEY} nil"),
        ("add class=inet acct=b svce=s", f"{NO_SUCH_KEY} nil"),
        ("add class=genp atag=$b", f"{NO_SUCH_KEY} nil"),
        ("add class=idnt", f"{UNIMPLEMENTED} nil"),
        ("copy class=cert m_TrustedOnly=!true", f"{UNIMPLEMENTED} nil"),
        ("copy class=genp wrong=1", f"{NO_SUCH_KEY} nil"),
        ("copy class=genp m_Limit=#0", f"{PARAM} nil"),
        ("copy class=inet port=%443 r_Data=!true", f"{SUCCESS} $3"),
        ("copy class=inet port=%444 m_Limit=%1 r_Data=!true", f"{SUCCESS} $"),
        ("copy class=genp m_Limit=%1.5", f"{PARAM} nil"),
        ("copy class=inet port=%443.5", f"{PARAM} nil"),
        ("copy class=inet port=%1e30", f"{PARAM} nil"),
        ("copy class=inet port=!true", f"{NOT_FOUND} nil"),
        ("copy class=inet port=443 r_Data=!true", f"{SUCCESS} $3"),
        ("copy class=inet port=0443", f"{NOT_FOUND} nil"),
        ("copy class=inet port=$x", f"{PARAM} nil"),
        ("update class=genp svce=u to crtr=Creator type=12", str(SUCCESS)),
        ("copy class=genp svce=u crtr=Creator r_Attributes=!true",
         f"{SUCCESS} " + attributes(acct="a", crtr="Creator", type="#12", invi="#1", labl="Other", pdmn="cku", svce="u")),
        ("copy class=genp invi=%1", f"{SUCCESS} nil"),
        ("copy class=genp invi=%2", f"{PARAM} nil"),
        ("copy class=genp acct=#1", f"{PARAM} nil"),
        ("add class=genp acct=b icmt=" + "c" * 4000, f"{TOO_LARGE} nil"),
        ("add class=genp acct=b v_Data=$" + "d" * 65537, f"{TOO_LARGE} nil"),
        ("copy class=genp acct=b", f"{NOT_FOUND} nil"),
        ("message -25300", "There is no such item."), ("message 1", "nil")))
    # What the program stores, the command reads, and the other way round.
    command = [harness.binary(), "secret"]
    found = harness.run(*command, "get", "-a", "service=u", mount.path, "a")
    environment.cell("the command reads it", "4", found.stdout)
    harness.run(*command, "set", "--internet", "-a", "server=w", "-a", "port=1", mount.path, "c", input="5")
    environment.cell("the program reads the command's", f"{SUCCESS} $5", ask("copy class=inet srvr=w port=#1 r_Data=!true"))
    environment.cell("by an NSNumber too", f"{SUCCESS} $5", ask("copy class=inet srvr=w port=%1 r_Data=!true"))
    environment.cell("deletes all", str(SUCCESS), ask("delete class=genp"))
    environment.cell("files left", 3, len(os.listdir(mount / ".secrets/items")))


def test_which_mount(environment):
    """The mount named; else that of the home directory; none where there is none."""
    mount = environment.mount()
    ask = Keychain(environment.base)
    environment.cell("a path on no mount is refused", "not on a protected mount", ask("mount"))
    ask.close()
    os.mkdir(mount / "home")
    ask = Keychain(home=mount / "home")
    environment.cell("by the home directory", mount.path, ask("mount"))
    ask.close()


def test_together(environment):
    """Of many programs that add one item, one does."""
    mount = environment.mount()
    program()
    count = int(os.environ.get("PROTECTFS_SECRET_WRITERS", "16"))
    programs = [Keychain(mount.path) for _ in range(count)]
    for one in programs:
        one.process.stdin.write("save one secret\n")
    for one in programs:
        one.process.stdin.flush()
    answers = [one.process.stdout.readline().strip() for one in programs]
    environment.cell("added by one", (1, count - 1), (answers.count(str(SUCCESS)), answers.count(str(DUPLICATE))))
    for one in programs:
        one.close()
    environment.cell("one item, no debris", (1, []), (len(os.listdir(mount / ".secrets/items")),
                                                      os.listdir(mount / ".secrets/staging")))
