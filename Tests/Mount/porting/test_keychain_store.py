"""Items that earlier versions stored, and those that other programs change meanwhile."""

import json
import os

import harness
from test_keychain import CLOSED, DUPLICATE, NOT_AVAILABLE, NOT_FOUND, SUCCESS, Keychain, attributes


def test_items_of_version_1(environment):
    """Items that earlier versions stored are found, told apart, changed and deleted as those of today."""
    with open(os.path.join(harness.REPOSITORY, "Tests", "Fixtures", "secrets-1.json"), encoding="ascii") as file:
        stored = json.load(file)
    mount = environment.mount()
    os.makedirs(mount / ".secrets/items", mode=0o700)
    os.chmod(mount / ".secrets", 0o700)
    for item in stored:
        path = mount / ".secrets/items/" + item["name"]
        harness.write_file(path, item["secret"].encode())
        os.setxattr(path, "user.protection", item["class"].encode())
        os.setxattr(path, "user.secret", bytes.fromhex(item["record"]))
    listed = json.loads(harness.run(harness.binary(), "secret", "list", "--json", mount.path).stdout)
    environment.cell("the command lists them", len(stored), len(listed))
    ask = Keychain(mount.path)
    rich = attributes(dates="2wrong", acct="me", svce="mail", labl="Mail", invi="#1", v_Data="$two", gena="$\x00\N{REPLACEMENT CHARACTER}")
    ask.answers(environment, (
        ("copy class=genp svce=mail agrp=protectfs.default r_Data=!true r_Attributes=!true", f"{SUCCESS} {rich}"),
        ("copy class=genp agrp=ABC.shared r_Data=!true", f"{SUCCESS} $three"),
        ("copy class=genp svce= m_Limit=m_LimitAll r_Data=!true", f"{SUCCESS} [$four;$one]"),
        ("copy class=genp pdmn=dku r_Data=!true", f"{SUCCESS} $four"),
        ("copy class=genp sync=!true", f"{NOT_FOUND} nil"),
        ("add class=genp acct=me", f"{DUPLICATE} nil"),
        ("add class=genp acct=me svce=mail", f"{DUPLICATE} nil"),
        ("add class=genp acct=me svce=mail agrp=ABC.shared", f"{DUPLICATE} nil"),
        ("add class=inet acct=me srvr=example.org", f"{DUPLICATE} nil"),
        ("copy class=inet port=#443 r_Data=!true r_Attributes=!true", f"{SUCCESS} " + attributes(
            "inet", dates="2wrong", acct="me", srvr="example.org", ptcl="htps", port="#443", path="/", atyp="dflt", sdmn="d", crtr="#7",
            type="#-1", v_Data="$five")),
        ("copy class=genp svce=mail agrp=protectfs.default r_PersistentRef=!true", f"{SUCCESS} @"),
        ("update v_PersistentRef=@ to svce=post", str(SUCCESS)),
        ("copy v_PersistentRef=@ r_Data=!true", f"{SUCCESS} $two"),
        ("copy class=genp svce=mail m_Limit=m_LimitAll r_Data=!true", f"{SUCCESS} [$three]"),
        ("delete class=genp", str(SUCCESS)), ("delete class=inet", str(SUCCESS))))
    environment.cell("files left", [], os.listdir(mount / ".secrets/items"))
    ask.close()


def test_others_change(environment):
    """A program that has looked before sees what others change, whatever else it changes itself."""
    mount = environment.mount()
    items = mount / ".secrets/items/"
    one, other = Keychain(mount.path), Keychain(mount.path)
    for number in range(16):
        name = f"class=genp acct=a{number} svce=s"
        look = f"copy {name} sync=syna m_Limit=m_LimitAll r_Data=!true"
        environment.cell(f"{number} not there", f"{NOT_FOUND} nil", one(look))
        other(f"add {name} v_Data=$1")
        environment.cell(f"{number} added", f"{SUCCESS} [$1]", one(look))
        one(f"add class=genp acct=own{number}")
        other(f"update {name} to v_Data=$2 icmt=new")
        environment.cell(f"{number} changed", f"{SUCCESS} [$2]", one(look + " icmt=new"))
        other(f"update {name} to svce=t")
        environment.cell(f"{number} moved", f"{NOT_FOUND} nil", one(look))
        environment.cell(f"{number} found where it is", f"{SUCCESS} [$2]", one(look.replace("svce=s", "svce=t")))
        if number % 2:
            other(f"delete class=genp acct=a{number}")
            one(f"delete class=genp acct=own{number}")
            environment.cell(f"{number} deleted", f"{NOT_FOUND} nil", one(look.replace("svce=s", "svce=t")))
    # The command, a class, and a program that does not know the rules.
    look = "copy class=genp acct=a0 m_Limit=m_LimitAll r_Attributes=!true"
    environment.cell("before", True, "pdmn=ak" in one(look))
    for entry in os.scandir(items):
        harness.set_class(entry.path, "C")
    environment.cell("another class", True, "pdmn=ck" in one(look))
    harness.run(harness.binary(), "secret", "delete", "-a", "service=t", mount.path, "a0")
    environment.cell("the command deletes", f"{NOT_FOUND} nil", one(look))
    harness.run(harness.binary(), "secret", "set", mount.path, "a0", input="x")
    environment.cell("the command sets", f"{SUCCESS} [$x]", one("copy class=genp acct=a0 m_Limit=m_LimitAll r_Data=!true"))
    for entry in os.scandir(items):
        os.unlink(entry.path)
    environment.cell("removed by hand", f"{NOT_FOUND} nil", one("copy class=genp m_Limit=m_LimitAll r_Data=!true"))
    # Another volume at the same place.
    one("add class=genp acct=last v_Data=$1")
    environment.cell("before another volume", f"{SUCCESS} [$1]", one("copy class=genp m_Limit=m_LimitAll r_Data=!true"))
    mount.unmount()
    environment.mount(path=mount.path)
    environment.cell("another volume", f"{NOT_FOUND} nil", one("copy class=genp m_Limit=m_LimitAll r_Data=!true"))
    one.close()
    other.close()


def test_each_change_is_marked(environment):
    """In every state each change gives the directory a mark of its own, and a search gives none."""
    mount = environment.mount()

    def mark():
        return os.getxattr(mount / ".secrets", "user.secret.writer")

    def judge(state, ask):
        seen = {mark()}
        for line in ("add class=genp acct=n pdmn=dk v_Data=$1", "update class=genp acct=n to v_Data=$2",
                     "update class=genp acct=n to acct=m", "delete class=genp acct=m"):
            environment.cell(f"{state} {line}", str(SUCCESS), ask(line).split()[0])
            environment.cell(f"{state} marked: {line}", False, mark() in seen)
            seen.add(mark())
        ask("copy class=genp m_Limit=m_LimitAll r_Attributes=!true")
        environment.cell(f"{state} a search", True, mark() in seen)
        environment.cell(f"{state} length", 16, len(mark()))

    ask = Keychain(mount.path)
    ask("add class=genp acct=first v_Data=$1")
    judge("UNL", ask)
    mount.lock()
    judge("LCK", ask)
    ask.close()
    mount = environment.remount(mount, unlock=False)
    ask = Keychain(mount.path)
    judge("BFU", ask)
    before = mark()
    environment.cell("BFU refused", f"{CLOSED} nil", ask("add class=genp acct=n v_Data=$1"))
    environment.cell("BFU marked, to be sure", False, mark() == before)
    ask.close()
    harness.run(harness.binary(), "secret", "delete", mount.path, "first")
    environment.cell("the command marks", False, mark() == before)


def test_mount_that_has_gone(environment):
    """After an unmount the mount point that the program has named is a plain directory: no secret is written there."""
    mount = environment.mount()
    ask = Keychain(mount.path, home="/")
    environment.cell("on the mount", f"{SUCCESS} nil", ask("add class=genp acct=a v_Data=$1"))
    mount.unmount()
    os.makedirs(mount.path, exist_ok=True)
    for line in ("add class=genp acct=b v_Data=$plain", "copy class=genp acct=a r_Data=!true",
                 "update class=genp acct=a to v_Data=$plain", "delete class=genp acct=a"):
        environment.cell(f"gone: {line}", str(NOT_AVAILABLE), ask(line).split()[0])
    environment.cell("nothing is there", [], os.listdir(mount.path))
    environment.mount(mount.volume, path=mount.path)
    environment.cell("mounted again", f"{SUCCESS} $1", ask("copy class=genp acct=a r_Data=!true"))
    ask.close()


def test_changes_at_the_same_time(environment):
    """Programs that change one item at the same time: what each of them has changed is there in the end."""
    mount = environment.mount()
    asking = [Keychain(mount.path) for _ in range(4)]
    # Each program has a key of its own, and the last one changes the secret.
    keys = ("labl", "desc", "icmt", "v_Data")
    asking[0]("add class=genp acct=shared v_Data=$0")
    lost = []
    for number in range(1, 41):
        for ask, key in zip(asking, keys):
            value = f"${number}" if key == "v_Data" else str(number)
            ask.process.stdin.write(f"update class=genp acct=shared to {key}={value}\n")
            ask.process.stdin.flush()
        answers = [ask.process.stdout.readline().strip() for ask in asking]
        found = asking[0]("copy class=genp acct=shared r_Data=!true r_Attributes=!true")
        wanted = [f"{key}={'$' if key == 'v_Data' else ''}{number}" for key in keys]
        if answers != [str(SUCCESS)] * 4 or not all(word in found for word in wanted):
            lost.append((number, answers, found))
    environment.cell("nothing is lost", [], lost[:2])
    for ask in asking:
        ask.close()


def test_deleted_at_the_same_time(environment):
    """An item that another program deletes in the meantime takes nothing from a list of the others, or from a clear."""
    mount = environment.mount()
    one, other = Keychain(mount.path), Keychain(mount.path)
    one("add class=genp acct=stays svce=kept v_Data=$kept")
    wrong = []
    for number in range(40):
        for name in range(8):
            one(f"add class=genp acct=a{name} svce=s v_Data=$1")
        for line in ([f"delete class=genp acct=a{name} svce=s" for name in range(8)]):
            other.process.stdin.write(line + "\n")
        other.process.stdin.flush()
        if number % 2:
            lists = [one("copy class=genp m_Limit=m_LimitAll r_Data=!true") for _ in range(8)]
            wrong += [line for line in lists if not line.startswith(f"{SUCCESS} [") or "$kept" not in line]
        else:
            answer = one("delete class=genp svce=s")
            left = one("copy class=genp svce=s m_Limit=m_LimitAll r_Attributes=!true")
            if answer not in (str(SUCCESS), str(NOT_FOUND)) or left != f"{NOT_FOUND} nil":
                wrong.append((answer, left))
        for _ in range(8):
            other.process.stdout.readline()
    environment.cell("lists and clears", [], wrong[:2])
    one.close()
    other.close()
