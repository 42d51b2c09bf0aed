"""The keychain's dictionary: identities, synchronizable items, groups, references, results, changes, certificates and keys."""

import base64
import itertools
import os

import harness
from test_keychain import CLOSED, DUPLICATE, NO_SUCH_KEY, NOT_FOUND, PARAM, SUCCESS, UNIMPLEMENTED, attributes, on_a_mount

DECODE = -26275

# Two certificates of one issuer, with the serial numbers 0x1234567890 and 77.
CERTIFICATES = [
    "MIIBmTCCAT6gAwIBAgIFEjRWeJAwCgYIKoZIzj0EAwIwKDEUMBIGA1UEAwwLZXhhbXBsZS5vcmcxEDAOBgNVBAoMB0V4YW1wbGUwIBcNMjYxMTI2MDEy"
    "OTA4WhgPMjEyNjExMDIwMTI5MDhaMCgxFDASBgNVBAMMC2V4YW1wbGUub3JnMRAwDgYDVQQKDAdFeGFtcGxlMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE"
    "3dKFmbiU3hWocYBWwe+tBOq9kpWBXtz9BHMzF/6uEKiuMIscU+U9mcHrnPwL5PcHTJXrqJfYkAoI/EO3bzCyJaNTMFEwHQYDVR0OBBYEFK0h8SuBW52V0/vx"
    "dz8mFaV/fU8WMB8GA1UdIwQYMBaAFK0h8SuBW52V0/vxdz8mFaV/fU8WMA8GA1UdEwEB/wQFMAMBAf8wCgYIKoZIzj0EAwIDSQAwRgIhAJNR6Q+Qro8miiRY"
    "2R1dhWI2CeQJe48eYQ1MPrqIql4YAiEAvPmmS2cm6QO8RxmaJYMYVOvq69XFg0jMOA41f+Bq/nc=",
    "MIIBlTCCATqgAwIBAgIBTTAKBggqhkjOPQQDAjAoMRQwEgYDVQQDDAtleGFtcGxlLm9yZzEQMA4GA1UECgwHRXhhbXBsZTAgFw0yNjExMjYwMTI5MDhaGA8y"
    "MTI2MTEwMjAxMjkwOFowKDEUMBIGA1UEAwwLZXhhbXBsZS5vcmcxEDAOBgNVBAoMB0V4YW1wbGUwWTATBgcqhkjOPQIBBggqhkjOPQMBBwNCAATd0oWZuJTe"
    "FahxgFbB760E6r2SlYFe3P0EczMX/q4QqK4wixxT5T2Zweuc/Avk9wdMleuol9iQCgj8Q7dvMLIlo1MwUTAdBgNVHQ4EFgQUrSHxK4FbnZXT+/F3PyYVpX99"
    "TxYwHwYDVR0jBBgwFoAUrSHxK4FbnZXT+/F3PyYVpX99TxYwDwYDVR0TAQH/BAUwAwEB/zAKBggqhkjOPQQDAgNJADBGAiEAx2dyGLisKQg8XGBMVQd4kJCV"
    "0PC/HDtULmqLIxByaJACIQDjRuKc5x2Y8NLoWXwCzWPzwwwpJrRee4gFhl8pZNd1/Q=="]

# The identifying attributes of each kind, each with two values of which the first is not the one of an item without it.
IDENTITY = {
    "genp": {"acct": ("a", "b"), "svce": ("s", "t"), "agrp": ("g", "h"), "sync": ("!true", "!false")},
    "inet": {"acct": ("a", "b"), "sdmn": ("d", "e"), "srvr": ("s", "t"), "ptcl": ("htps", "http"), "atyp": ("dflt", "form"),
             "port": ("#1", "#2"), "path": ("/p", "/q"), "agrp": ("g", "h"), "sync": ("!true", "!false")},
    "keys": {"kcls": ("1", "2"), "klbl": ("$l", "$m"), "atag": ("$t", "$u"), "crtr": ("#1", "#2"), "type": ("42", "73"),
             "bsiz": ("#256", "#128"), "esiz": ("#256", "#128"), "agrp": ("g", "h"), "sync": ("!true", "!false")},
}
OTHERS = {"genp": ("labl=x", "desc=x", "icmt=x", "gena=$x", "crtr=#9", "type=#9", "invi=!true", "nega=!true", "pdmn=ck"),
          "inet": ("labl=x", "desc=x", "icmt=x", "crtr=#9", "type=#9", "invi=!true", "nega=!true", "pdmn=ck"),
          "keys": ("labl=x", "perm=!true", "sign=!true", "pdmn=ck")}


@on_a_mount
def test_identity(environment, mount, ask):
    """Two items that differ in one identifying attribute are two; two that differ in any other are one."""
    for kind, names in IDENTITY.items():
        base = {name: values[0] for name, values in names.items() if name != "sync"}
        variants = [base] + [{**base, name: values[0] if name == "sync" else values[1]} for name, values in names.items()]
        # Without the attribute, too, which is yet another item.
        variants += [{name: value for name, value in base.items() if name != left} for left in base]
        words = [" ".join(f"{name}={value}" for name, value in variant.items()) for variant in variants]
        for number, line in enumerate(words):
            environment.cell(f"{kind} add {line}", f"{SUCCESS} nil", ask(f"add class={kind} {line} v_Data=${kind}{number}"))
        for number, line in enumerate(words):
            environment.cell(f"{kind} again {line}", f"{DUPLICATE} nil", ask(f"add class={kind} {line} v_Data=$x"))
        for other in OTHERS[kind]:
            environment.cell(f"{kind} with {other}", f"{DUPLICATE} nil", ask(f"add class={kind} {words[0]} {other} v_Data=$x"))
        whole = [number for number, variant in enumerate(variants) if set(names) - {"sync"} <= set(variant)]
        for number in whole:
            environment.cell(f"{kind} read {words[number]}", f"{SUCCESS} [${kind}{number}]",
                             ask(f"copy class={kind} {words[number]} m_Limit=m_LimitAll r_Data=!true"))
        environment.cell(f"{kind}: all", f"{SUCCESS} [" + ";".join(sorted(f"${kind}{n}" for n in range(len(words)))) + "]",
                         ask(f"copy class={kind} sync=syna m_Limit=m_LimitAll r_Data=!true"))
    ask.answers(environment, (
        ("add class=genp acct=empty v_Data=$1", f"{SUCCESS} nil"),
        ("add class=genp acct=empty svce= v_Data=$2", f"{DUPLICATE} nil"),
        ("add class=genp acct=empty svce= agrp=protectfs.default v_Data=$2", f"{DUPLICATE} nil"),
        ("copy class=genp acct=empty svce= r_Data=!true", f"{SUCCESS} $1"),
        ("copy class=genp acct=empty agrp=protectfs.default r_Data=!true", f"{SUCCESS} $1"),
        ("add class=inet acct=empty v_Data=$1", f"{SUCCESS} nil"),
        ("add class=inet acct=empty port=#0 path= v_Data=$1", f"{DUPLICATE} nil"),
        ("copy class=inet acct=empty port=#0 srvr= ptcl= r_Data=!true", f"{SUCCESS} $1")))


@on_a_mount
def test_synchronizable(environment, mount, ask):
    """An item that is synchronizable is another than one that is not; a query finds those that it asks for."""
    ask.answers(environment, (
        ("add class=genp acct=a v_Data=$here", f"{SUCCESS} nil"),
        ("add class=genp acct=a sync=!true v_Data=$there", f"{SUCCESS} nil"),
        ("add class=genp acct=a sync=!true v_Data=$x", f"{DUPLICATE} nil"),
        ("add class=genp acct=a sync=!false v_Data=$x", f"{DUPLICATE} nil"),
        ("add class=genp acct=b sync=syna v_Data=$x", f"{PARAM} nil"),
        ("add class=genp acct=b sync=maybe v_Data=$x", f"{PARAM} nil"),
        ("add class=genp acct=b sync=!true pdmn=aku v_Data=$x r_Attributes=!true",
         f"{SUCCESS} " + attributes(acct="b", sync="#1", pdmn="aku")),
        ("delete class=genp acct=b sync=!true", str(SUCCESS)),
        ("copy class=genp acct=a r_Data=!true", f"{SUCCESS} $here"),
        ("copy class=genp acct=a sync=!false r_Data=!true", f"{SUCCESS} $here"),
        ("copy class=genp acct=a sync=!true r_Data=!true", f"{SUCCESS} $there"),
        ("copy class=genp acct=a sync=%1 r_Data=!true", f"{SUCCESS} $there"),
        ("copy class=genp acct=a sync=syna m_Limit=m_LimitAll r_Data=!true", f"{SUCCESS} [$here;$there]"),
        ("copy class=genp acct=a sync=!true r_Attributes=!true", f"{SUCCESS} " + attributes(acct="a", sync="#1")),
        ("update class=genp acct=a sync=!true to sync=!false", str(DUPLICATE)),
        ("update class=genp acct=a to icmt=one", str(SUCCESS)),
        ("copy class=genp icmt=one sync=syna m_Limit=m_LimitAll r_Data=!true", f"{SUCCESS} [$here]"),
        ("update class=genp acct=a sync=syna to icmt=both", str(SUCCESS)),
        ("copy class=genp icmt=both sync=syna m_Limit=m_LimitAll r_Data=!true", f"{SUCCESS} [$here;$there]"),
        ("delete class=genp acct=a", str(SUCCESS)),
        ("copy class=genp acct=a r_Data=!true", f"{NOT_FOUND} nil"),
        ("update class=genp acct=a sync=!true to sync=!false", str(SUCCESS)),
        ("copy class=genp acct=a r_Data=!true", f"{SUCCESS} $there"),
        ("delete class=genp sync=syna", str(SUCCESS)),
        ("delete class=genp sync=syna", str(NOT_FOUND))))


@on_a_mount
def test_groups(environment, mount, ask):
    """An item has the group that it is given, or that of the program; a query without a group looks in all."""
    shared = f"{SUCCESS} " + attributes(acct="a", agrp="TEAM.shared")
    own = f"{SUCCESS} " + attributes(acct="a", agrp="TEAM.own")
    for line, answer in (
        ("add class=genp acct=a r_Attributes=!true", f"{SUCCESS} " + attributes(acct="a")),
        ("add class=genp acct=a agrp=TEAM.shared r_Attributes=!true", shared),
        ("group TEAM.own", None),
        ("add class=genp acct=a r_Attributes=!true", own),
        ("add class=genp acct=a agrp=protectfs.default", f"{DUPLICATE} nil"),
        ("copy class=genp acct=a agrp=TEAM.shared r_Attributes=!true", shared),
        ("copy class=genp acct=a agrp=protectfs.default r_Attributes=!true", f"{SUCCESS} " + attributes(acct="a")),
        ("copy class=genp acct=a agrp=other", f"{NOT_FOUND} nil"),
        ("update class=genp agrp=TEAM.shared to agrp=TEAM.own", str(DUPLICATE)),
        ("update class=genp agrp=TEAM.own to agrp=protectfs.default", str(DUPLICATE)),
        ("delete class=genp agrp=protectfs.default", str(SUCCESS)),
        ("update class=genp agrp=TEAM.own to agrp=protectfs.default", str(SUCCESS)),
        ("copy class=genp agrp=TEAM.own", f"{NOT_FOUND} nil"),
        ("delete class=genp", str(SUCCESS)),
        ("copy class=genp", f"{NOT_FOUND} nil")):
        if answer is None:
            ask.process.stdin.write(line + "\n")
        else:
            environment.cell(line, answer, ask(line))


@on_a_mount
def test_results(environment, mount, ask):
    """Every combination of requested results, of one item, of all and of a number."""
    ask("add class=genp acct=a v_Data=$1")
    ask("add class=genp acct=b v_Data=$2")
    keys = {"r_Data": "v_Data", "r_Attributes": None, "r_Ref": "v_Ref", "r_PersistentRef": "v_PersistentRef"}

    def shown(account, data, wanted):
        parts = {"r_Data": data, "r_PersistentRef": "@"}
        if wanted == ("r_Ref",):
            return None  # A password has no reference, as on an iPhone.
        if len(wanted) == 1 and wanted[0] in parts:
            return parts[wanted[0]]
        more = {keys[word]: parts[word] for word in wanted if word in parts}
        if "r_Attributes" in wanted:
            return attributes(acct=account, **more)
        return "{" + ",".join(f"{key}={more[key]}" for key in sorted(more)) + "}"

    for count in range(len(keys) + 1):
        for wanted in itertools.combinations(keys, count):
            words = "".join(f" {word}=!true" for word in wanted)
            one = shown("a", "$1", wanted) if wanted else None
            both = sorted([one, shown("b", "$2", wanted)]) if one else None
            environment.cell(f"one{words}", f"{SUCCESS} {one or 'nil'}", ask(f"copy class=genp acct=a{words}"))
            environment.cell(f"one, said{words}", f"{SUCCESS} {one or 'nil'}",
                             ask(f"copy class=genp acct=a m_Limit=m_LimitOne{words}"))
            environment.cell(f"all{words}", f"{SUCCESS} " + ("[" + ";".join(both) + "]" if both else "nil"),
                             ask(f"copy class=genp m_Limit=m_LimitAll{words}"))
            environment.cell(f"all, of one{words}", f"{SUCCESS} " + (f"[{one}]" if one else "nil"),
                             ask(f"copy class=genp acct=a m_Limit=m_LimitAll{words}"))
            environment.cell(f"a number{words}", f"{SUCCESS} " + ("[" + ";".join(both) + "]" if both else "nil"),
                             ask(f"copy class=genp m_Limit=#2{words}"))
            environment.cell(f"added{words}", f"{SUCCESS} {one or 'nil'}".replace("acct=a", "acct=c"),
                             ask(f"add class=genp acct=c v_Data=$1{words}"))
            ask("delete class=genp acct=c")


@on_a_mount
def test_persistent_references(environment, mount, ask):
    """A reference names its item through changes and mounts, and nothing after the item is gone."""
    ask.answers(environment, (
        ("add class=genp acct=other v_Data=$other", f"{SUCCESS} nil"),
        ("add class=genp acct=a sync=!true v_Data=$1 r_PersistentRef=!true", f"{SUCCESS} @"),
        ("copy v_PersistentRef=@ r_Data=!true", f"{SUCCESS} $1"),
        ("copy persistref=@ r_Data=!true", f"{SUCCESS} $1"),
        ("copy class=genp v_PersistentRef=@ r_Data=!true", f"{SUCCESS} $1"),
        ("copy class=inet v_PersistentRef=@ r_Data=!true", f"{NOT_FOUND} nil"),
        ("copy m_ItemList=* m_Limit=m_LimitAll r_Data=!true", f"{SUCCESS} [$1]"),
        ("copy v_PersistentRef=$short", f"{NOT_FOUND} nil"),
        ("copy v_PersistentRef=text", f"{PARAM} nil"),
        ("add class=genp v_PersistentRef=@", f"{PARAM} nil"),
        ("update v_PersistentRef=@ to acct=b svce=s pdmn=ck v_Data=$2", str(SUCCESS)),
        ("copy v_PersistentRef=@ r_Data=!true", f"{SUCCESS} $2"),
        ("add class=genp acct=a sync=!true v_Data=$3", f"{SUCCESS} nil"),
        ("copy v_PersistentRef=@ r_Data=!true", f"{SUCCESS} $2"),
        ("update class=genp acct=b sync=!true to agrp=g", str(SUCCESS)),
        ("copy v_PersistentRef=@ r_Attributes=!true",
         f"{SUCCESS} " + attributes(acct="b", svce="s", agrp="g", pdmn="ck", sync="#1"))))
    mount.lock()
    environment.cell("LCK", f"{SUCCESS} $2", ask("copy v_PersistentRef=@ r_Data=!true"))
    mount.unlock()
    ask.answers(environment, (
        ("update v_PersistentRef=@ to acct=a svce= agrp=", str(DUPLICATE)),
        ("delete v_PersistentRef=@", str(SUCCESS)),
        ("copy v_PersistentRef=@", f"{NOT_FOUND} nil"),
        ("delete v_PersistentRef=@", str(NOT_FOUND)),
        ("add class=genp acct=b svce=s agrp=g sync=!true v_Data=$4", f"{SUCCESS} nil"),
        ("copy v_PersistentRef=@", f"{NOT_FOUND} nil"),
        ("copy class=genp acct=other r_Data=!true", f"{SUCCESS} $other")))
    # An item that the command made has a reference, too, which a change of its identity keeps.
    harness.run(harness.binary(), "secret", "set", mount.path, "command", input="5")
    ask.answers(environment, (
        ("copy class=genp acct=command r_PersistentRef=!true", f"{SUCCESS} @"),
        ("copy v_PersistentRef=@ r_Data=!true", f"{SUCCESS} $5"),
        ("update v_PersistentRef=@ to svce=moved", str(SUCCESS)),
        ("copy v_PersistentRef=@ r_Data=!true", f"{SUCCESS} $5")))
    shown = harness.run(harness.binary(), "secret", "list", mount.path).stdout
    environment.cell("the list does not show references", (True, False), ("moved" in shown, "reference" in shown))


CHANGES = {"genp": {"labl": "new", "desc": "new", "icmt": "new", "gena": "$new", "crtr": "#5", "type": "#6", "invi": "!true",
                    "nega": "!true", "acct": "new", "svce": "new", "agrp": "new", "sync": "!true", "pdmn": "ck"},
           "inet": {"labl": "new", "desc": "new", "icmt": "new", "crtr": "#5", "type": "#6", "invi": "!true", "nega": "!true",
                    "acct": "new", "sdmn": "new", "srvr": "new", "ptcl": "smtp", "atyp": "ntlm", "port": "#7", "path": "new",
                    "agrp": "new", "sync": "!true", "pdmn": "ck"}}


@on_a_mount
def test_update(environment, mount, ask):
    """Each attribute changes alone and keeps the rest; a change that meets another item, or a closed one, changes nothing."""
    for kind, changes in CHANGES.items():
        for name, value in changes.items():
            ask(f"add class={kind} acct=old icmt=old v_Data=$secret")
            environment.cell(f"{kind} {name}", str(SUCCESS), ask(f"update class={kind} acct=old to {name}={value}"))
            after = {"acct": "old", "icmt": "old", name: "#1" if value == "!true" else value}
            environment.cell(f"{kind} {name}, after", f"{SUCCESS} " + attributes(kind, **after, v_Data="$secret"),
                             ask(f"copy class={kind} sync=syna r_Attributes=!true r_Data=!true"))
            environment.cell(f"{kind} {name} finds it", f"{SUCCESS} $secret", ask(
                f"copy class={kind} {'' if name == 'sync' else 'sync=syna '}{name}={value} r_Data=!true"))
            ask(f"delete class={kind} sync=syna")
    ask("add class=genp acct=1 svce=s pdmn=ck v_Data=$1")
    ask("add class=genp acct=2 svce=s v_Data=$2")
    ask("add class=genp acct=3 svce=t v_Data=$3")
    ask.answers(environment, (
        ("update class=genp svce=s to acct=same", str(DUPLICATE)),
        ("update class=genp svce=s to icmt=changed m_Limit=m_LimitAll", str(PARAM)),
        ("update class=genp svce=s m_Limit=m_LimitOne to icmt=changed", str(PARAM)),
        ("update class=genp svce=s r_Data=!true to icmt=changed", str(PARAM)),
        ("update class=genp svce=s to srvr=changed", str(NO_SUCH_KEY)),
        ("update class=genp svce=t to acct=1 svce=s", str(DUPLICATE)),
        ("copy class=genp svce=s acct=1 r_Data=!true", f"{SUCCESS} $1"),
        ("delete class=genp m_Limit=m_LimitOne", str(PARAM)),
        ("delete class=genp m_Limit=#2", str(PARAM)),
        ("update class=genp acct=3 to cdat=^1000000000", str(SUCCESS)),
        ("copy class=genp cdat=^1000000000 r_Data=!true", f"{SUCCESS} $3"),
        ("add class=genp acct=4 cdat=^1000000001 mdat=^1000000002 v_Data=$4", f"{SUCCESS} nil"),
        ("copy class=genp mdat=^1000000002 cdat=^1000000001 r_Data=!true", f"{SUCCESS} $4"),
        ("copy class=genp mdat=^1000000003", f"{NOT_FOUND} nil"),
        ("copy class=genp mdat=today", f"{PARAM} nil")))
    mount.lock()
    environment.cell("LCK, one of two is closed", str(CLOSED), ask("update class=genp svce=s to icmt=changed"))
    mount.unlock()
    environment.cell("nothing has changed", f"{NOT_FOUND} nil", ask("copy class=genp icmt=changed"))
    environment.cell("delete all", str(SUCCESS), ask("delete class=genp m_Limit=m_LimitAll"))
    environment.cell("files left", 0, len(os.listdir(mount / ".secrets/items")))


@on_a_mount
def test_access_control(environment, mount, ask):
    """An access control is the accessibility in it; one that asks for a person is refused and finds nothing."""
    ask.answers(environment, (
        ("control ak 0", "<SecAccessControl: ak 0> 0"), ("control akpu 1", "<SecAccessControl: akpu 1> 0"),
        ("control never 0", f"nil {PARAM}"), ("control ak 256", f"nil {PARAM}"),
        ("add class=genp acct=a accc=&ck,0 v_Data=$1", f"{SUCCESS} nil"),
        ("copy class=genp acct=a r_Attributes=!true", f"{SUCCESS} " + attributes(acct="a", pdmn="ck")),
        ("copy class=genp accc=&ck,0 r_Data=!true", f"{SUCCESS} $1"),
        ("copy class=genp accc=&ak,0 r_Data=!true", f"{NOT_FOUND} nil"),
        ("add class=genp acct=b accc=&ck,0 pdmn=ck v_Data=$1", f"{SUCCESS} nil"),
        ("add class=genp acct=c accc=&ck,0 pdmn=ak v_Data=$1", f"{PARAM} nil"),
        ("add class=genp acct=c accc=text v_Data=$1", f"{PARAM} nil"),
        *((f"add class=genp acct=c accc=&ak,{1 << bit} v_Data=$1", f"{UNIMPLEMENTED} nil") for bit in (0, 1, 3, 4, 5, 30, 31)),
        ("update class=genp acct=a to accc=&ck,1", str(UNIMPLEMENTED)),
        ("copy class=genp acct=a accc=&ck,1 r_Data=!true", f"{NOT_FOUND} nil"),
        ("update class=genp acct=a to accc=&aku,0", str(SUCCESS)),
        ("copy class=genp acct=a r_Attributes=!true", f"{SUCCESS} " + attributes(acct="a", pdmn="aku")),
        ("copy class=genp acct=a u_AuthUI=u_AuthUIF u_NoAuthUI=!true nleg=!true u_OpPrompt=why r_Data=!true", f"{SUCCESS} $1"),
        ("copy class=genp acct=a u_AuthUI=ask", f"{PARAM} nil"), ("copy class=genp acct=a u_AuthCtx=none", f"{PARAM} nil"),
        ("copy class=genp acct=a nleg=maybe", f"{PARAM} nil")))
    mount.lock()
    environment.cell("LCK", f"{CLOSED} nil", ask("copy class=genp acct=a u_AuthUI=u_AuthUIS r_Data=!true"))


@on_a_mount
def test_keys_and_certificates(environment, mount, ask):
    """Keys are bytes with attributes; a certificate is known by issuer and serial number; there are no identities."""
    sizes = [len(base64.b64decode(text)) for text in CERTIFICATES]
    cut = base64.b64encode(base64.b64decode(CERTIFICATES[0])[:-1]).decode()
    ask.answers(environment, (
        ("add class=keys atag=$org.example.key kcls=1 type=73 bsiz=#256 sign=!true labl=Key v_Data=$bytes", f"{SUCCESS} nil"),
        ("copy class=keys atag=$org.example.key r_Data=!true", f"{SUCCESS} $bytes"),
        ("copy class=keys kcls=1 type=73 r_Attributes=!true", f"{SUCCESS} " + attributes(
            "keys", atag="$org.example.key", kcls="#1", type="#73", bsiz="#256", sign="#1", labl="Key")),
        ("update class=keys atag=$org.example.key to v_Data=$newer", str(SUCCESS)),
        ("copy class=keys r_Data=!true", f"{SUCCESS} $newer"),
        ("add class=keys acct=a", f"{NO_SUCH_KEY} nil"),
        ("copy class=keys tkid=com.apple.setoken", f"{UNIMPLEMENTED} nil"),
        (f"add class=cert labl=One v_Data=~{CERTIFICATES[0]} r_Ref=!true", f"{SUCCESS} certificate{sizes[0]}"),
        (f"add class=cert v_Data=~{CERTIFICATES[0]}", f"{DUPLICATE} nil"),
        (f"add class=cert labl=Two v_Data=~{CERTIFICATES[1]}", f"{SUCCESS} nil"),
        (f"add class=cert v_Data=~{cut}", f"{DECODE} nil"),
        ("add class=cert v_Data=$text", f"{DECODE} nil"), ("add class=cert labl=none", f"{PARAM} nil"),
        ("copy class=cert slnr=$M r_Ref=!true", f"{SUCCESS} certificate{sizes[1]}"),
        ("copy class=cert labl=One r_Ref=!true", f"{SUCCESS} certificate{sizes[0]}"),
        ("copy class=cert r_Ref=!true m_Limit=m_LimitAll",
         f"{SUCCESS} [" + ";".join(sorted(f"certificate{size}" for size in sizes)) + "]"),
        ("update class=cert labl=One to v_Data=$other", str(PARAM)),
        ("update class=cert labl=One to labl=Uno", str(SUCCESS)),
        ("copy class=idnt r_Ref=!true", f"{NOT_FOUND} nil"), ("delete class=idnt", str(NOT_FOUND)),
        ("update class=idnt to labl=x", str(NOT_FOUND)), ("add class=idnt v_Data=$x", f"{UNIMPLEMENTED} nil"),
        ("copy class=none", f"{PARAM} nil")))
    whole = base64.b64decode(CERTIFICATES[0])
    for length in range(0, len(whole), 5):
        part = base64.b64encode(whole[:length]).decode()
        environment.cell(f"{length} bytes of a certificate", f"{DECODE} nil", ask(f"add class=cert v_Data=~{part}"))
    # A length that is longer than everything, and one that is longer than a number.
    for number, head in enumerate((b"\x30\x84\xff\xff\xff\xff", b"\x30\x88" + b"\xff" * 8, b"\x30\x80", b"\x30\x81\x05")):
        text = base64.b64encode(head + whole[4:]).decode()
        environment.cell(f"wrong length {number}", f"{DECODE} nil", ask(f"add class=cert v_Data=~{text}"))
    mount.lock()
    environment.cell("LCK certificate", f"{CLOSED} nil", ask("copy class=cert labl=Uno r_Ref=!true"))
    environment.cell("LCK its label", f"{SUCCESS} nil", ask("copy class=cert labl=Uno"))
    for kind in ("genp", "inet", "cert", "keys", "idnt"):
        environment.cell(f"LCK delete {kind}", str(SUCCESS if kind in ("cert", "keys") else NOT_FOUND), ask(f"delete class={kind}"))


@on_a_mount
def test_synchronizable_or_not(environment, mount, ask):
    """A query for both finds both, also if it names every identifying attribute."""
    name = "class=genp acct=a svce=s agrp=G"
    ask(f"add {name} v_Data=$no")
    ask(f"add {name} sync=!true v_Data=$yes")
    every = f"copy {name} m_Limit=m_LimitAll r_Data=!true"
    environment.cell("both", f"{SUCCESS} [$no;$yes]", ask(every + " sync=syna"))
    environment.cell("one of them", [f"{SUCCESS} [$no]", f"{SUCCESS} [$no]", f"{SUCCESS} [$yes]"],
                     [ask(every), ask(every + " sync=!false"), ask(every + " sync=!true")])
    ask(f"delete {name}")
    environment.cell("the first that is left", f"{SUCCESS} $yes", ask(f"copy {name} sync=syna r_Data=!true"))
    environment.cell("all are deleted", [str(SUCCESS), f"{NOT_FOUND} nil"],
                     [ask(f"delete {name} sync=syna"), ask("copy class=genp sync=syna")])
