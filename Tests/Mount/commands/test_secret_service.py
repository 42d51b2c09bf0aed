"""`protectfs secret service` with the programs that use it: secret-tool (libsecret), SecretStorage and keyring."""

import json
import os
import signal

import harness
import scan
from harness import CLASSES
from secret_service import COLLECTION, COLLECTION_INTERFACE, ITEM, ROOT, SERVICE, SecretBus

PROMPT = "org.freedesktop.Secret.Prompt"


def listed(mount):
    return json.loads(mount.command("secret", "list", "--json", mount.path).stdout)


def store(mount, account, secret, *words):
    mount.command("secret", "set", *words, mount.path, account, input=secret)


def default(bus):
    """SecretStorage's default collection, over a connection of its own."""
    import secretstorage
    bus.connections.append(secretstorage.dbus_init())
    return secretstorage.get_default_collection(bus.connections[-1])


def test_secret_tool(environment):
    mount = environment.mount()
    with SecretBus(environment, mount) as bus:
        words = ("service", "mail", "user", "me")
        environment.cell("nothing yet", (1, ""), bus.tool("lookup", *words))
        environment.cell("store", (0, ""), bus.tool("store", "--label=Mail of mine", *words, secret="sesame"))
        environment.cell("lookup", (0, "sesame"), bus.tool("lookup", *words))
        environment.cell("store again", 0, bus.tool("store", "--label=Mail", *words, secret="öffne dich")[0])
        environment.cell("replaced", (0, "öffne dich"), bus.tool("lookup", *words))
        environment.cell("one item of class A", [("desktop", "complete", "Mail")], [
            (item["kind"], item["class"], item["attributes"][ITEM + ".Label"]) for item in listed(mount)])
        bus.tool("store", "--label=Other", "service", "mail", secret="other")
        found = bus.tool("search", "--all", "service", "mail")[1]
        environment.cell("search", (2, True, True), (
            found.count("label = "), "secret = öffne dich" in found, "secret = other" in found))
        mount.lock()
        environment.cell("locked: lookup", (1, ""), bus.tool("lookup", *words))
        environment.cell("locked: store", 1, bus.tool("store", "--label=No", "a", "b", secret="x")[0])
        found = bus.tool("search", "--all", "service", "mail")[1]
        environment.cell("locked: search", (2, False), (found.count("label = "), "secret = " in found))
        # libsecret clears no locked items.
        environment.cell("locked: clear", (1, 2), (bus.tool("clear", *words)[0], len(listed(mount))))
        mount.unlock()
        environment.cell("unlocked", (0, "öffne dich"), bus.tool("lookup", *words))
        environment.cell("clear", (0, ["Other"]), (
            bus.tool("clear", *words)[0], [item["attributes"][ITEM + ".Label"] for item in listed(mount)]))
        # The program locks the collection, but crashes when it frees the answer (libsecret 0.20.5).
        bus.tool("lock", "--collection=login")
        environment.cell("lock", "locked", mount.state())


def test_secretstorage(environment):
    """Every byte and attribute, several items with the same attributes, and the items of `protectfs secret`."""
    import secretstorage.exceptions
    mount = environment.mount()
    with SecretBus(environment, mount) as bus:
        collection = default(bus)
        environment.cell("collection", (os.path.basename(mount.path), False), (collection.get_label(), collection.is_locked()))
        attributes = {"xdg:schema": "org.example.Test", "ä b": "=\n", "empty": ""}
        for secret in (b"", b"\0", bytes(range(256)) * 256):
            item = collection.create_item("Every byte", attributes, secret, replace=True)
            environment.cell(f"{len(secret)} bytes", secret, item.get_secret())
        environment.cell("attributes", (attributes, "Every byte"), (item.get_attributes(), item.get_label()))
        environment.cell("the command's -a", 1, len(json.loads(mount.command(
            "secret", "list", "--json", "-a", "xdg:schema=org.example.Test", mount.path).stdout)))
        path = item.item_path
        item.set_label("Now so")
        item.set_attributes({"x": "y"})
        item.set_secret(b"changed", "application/octet-stream")
        environment.cell("changed", ("Now so", {"x": "y"}, b"changed", "application/octet-stream", path), (
            item.get_label(), item.get_attributes(), item.get_secret(), item.get_secret_content_type(), item.item_path))
        environment.cell("times", True, 0 < item.get_created() <= item.get_modified())
        twin = collection.create_item("Twin", {"x": "y"}, b"twin")
        environment.cell("two with the same attributes", {b"changed", b"twin"}, {
            item.get_secret() for item in collection.search_items({"x": "y"})})
        twin.delete()
        environment.cell("deleted", 1, len(list(collection.search_items({"x": "y"}))))
        store(mount, "me", "of the command", "-a", "service=mail", "-a", "label=A label")
        store(mount, "web", "internet", "--internet", "-a", "server=example.org", "-a", "port=443")
        (found,) = collection.search_items({"account": "me", "service": "mail"})
        environment.cell("generic", (b"of the command", "A label", {"account": "me", "service": "mail"}), (
            found.get_secret(), found.get_label(), found.get_attributes()))
        (found,) = collection.search_items({"port": "443"})
        environment.cell("internet", (b"internet", "example.org"), (found.get_secret(), found.get_label()))
        found.set_secret(b"by the service")
        done = mount.command("secret", "get", "--internet", mount.path, "web")
        environment.cell("changed by the service", "by the service", done.stdout)
        collection.create_item("Other", {"account": "me", "service": "mail"}, b"replaced", replace=True)
        environment.cell("replaced by the service", "replaced", mount.command("secret", "get", mount.path, "me").stdout)
        collection.lock()
        environment.cell("lock", ("locked", True, True), (mount.state(), collection.is_locked(), item.is_locked()))
        try:
            item.get_secret()
            error = None
        except secretstorage.exceptions.LockedException:
            error = "locked"
        environment.cell("locked", "locked", error)


def test_keyring(environment):
    from keyring.backends.SecretService import Keyring
    from keyring.errors import KeyringLocked
    mount = environment.mount()
    with SecretBus(environment, mount) as bus:
        keyring = Keyring()
        keyring.set_password("service", "me", "sesame")
        environment.cell("get", "sesame", keyring.get_password("service", "me"))
        keyring.set_password("service", "me", "again")
        environment.cell("set again", ("again", 1), (keyring.get_password("service", "me"), len(listed(mount))))
        mount.lock()
        try:
            found = keyring.get_password("service", "me")
        except KeyringLocked:
            found = KeyringLocked
        environment.cell("locked", KeyringLocked, found)
        mount.unlock()
        keyring.delete_password("service", "me")
        environment.cell("deleted", (None, []), (keyring.get_password("service", "me"), listed(mount)))
        bus.service.terminate()
        bus.service.wait()
        bus.words = ("--passphrase-command", f"cat '{mount.volume.passphrase_file}'")
        bus.service = bus.start()
        keyring.set_password("service", "me", "asked")
        mount.lock()
        environment.cell("unlocked by a prompt", ("asked", "unlocked"), (keyring.get_password("service", "me"), mount.state()))
        bus.service.terminate()
        bus.service.wait()
        mount.lock()
        bus.words = ("--passphrase-command", "echo wrong")
        bus.service = bus.start()
        try:
            found = keyring.get_password("service", "me")
        except KeyringLocked:
            found = KeyringLocked
        environment.cell("a wrong passphrase", (KeyringLocked, "locked"), (found, mount.state()))


def test_classes(environment):
    """Which items count as locked in which state, and the class of new ones."""
    mount = environment.mount()
    with SecretBus(environment, mount, "--class", "C") as bus:
        client = bus.client()
        session = client.session()
        for letter in CLASSES:
            store(mount, letter, "of " + letter, "--class", letter)
        made = client.create(session, "New", {"account": "new"}, b"new")
        environment.cell("class of a new item", "completeUntilFirstUserAuthentication", next(
            item["class"] for item in listed(mount) if item["attributes"].get("account") == "new"))

        def judge(state, is_open):
            environment.cell(f"{state}: collection", state != "UNL", client.get(COLLECTION, COLLECTION_INTERFACE, "Locked"))
            unlocked, locked = [], []
            for letter in CLASSES:
                found = client.call(ROOT, SERVICE, "SearchItems", "a{ss}", {"account": letter})
                environment.cell(f"{state} {letter}: search", (letter in is_open, 1), (len(found[0]) == 1, len(sum(found, []))))
                item = sum(found, [])[0]
                (unlocked if letter in is_open else locked).append(item)
                environment.cell(f"{state} {letter}: property", letter not in is_open, client.get(item, ITEM, "Locked"))
                environment.cell(f"{state} {letter}: secret", None if letter in is_open else "IsLocked",
                                 client.error(item, ITEM, "GetSecret", "o", session))
            found = client.call(ROOT, SERVICE, "GetSecrets", "aoo", unlocked + locked, session)[0]
            environment.cell(f"{state}: GetSecrets", set(unlocked), set(found))
            found = client.call(ROOT, SERVICE, "Unlock", "ao", unlocked + locked)
            environment.cell(f"{state}: Unlock", (set(unlocked), "/"), (set(found[0]), found[1]))

        judge("UNL", "ABCD7")
        mount.lock()
        judge("LCK", "CD7")
        environment.cell("LCK: a new item of class C", b"later", client.secret(
            session, client.create(session, "Later", {"account": "later"}, b"later")))
        environment.cell("LCK: the item made before", b"new", client.secret(session, made))


def test_class_7_when_its_time_has_run_out(environment):
    """Its secrets count as locked then."""
    mount = environment.mount(options=["inactive=0"])
    with SecretBus(environment, mount, "--class", "C") as bus:
        client = bus.client()
        session = client.session()
        store(mount, "7", "of 7", "--class", "7")
        item, = client.call(ROOT, SERVICE, "SearchItems", "a{ss}", {"account": "7"})[0]
        for act, is_locked in ((mount.lock, True), (mount.unlock, False)):
            act()
            environment.cell(f"locked: {is_locked}", is_locked, client.get(item, ITEM, "Locked"))
            environment.cell(f"locked: {is_locked}, its secret", "IsLocked" if is_locked else None,
                             client.error(item, ITEM, "GetSecret", "o", session))


def test_refusals(environment):
    mount = environment.mount()
    with SecretBus(environment, mount) as bus:
        client, other = bus.client(), bus.client()
        session = client.session()
        item = client.create(session, "Label", {"a": "b"}, b"secret")
        gone = COLLECTION + "/" + "0" * 64

        def create(attributes, secret):
            properties = {ITEM + ".Label": ("s", ""), ITEM + ".Attributes": ("a{ss}", attributes)}
            return client.error(COLLECTION, COLLECTION_INTERFACE, "CreateItem", "a{sv}(oayays)b", properties,
                                (session, b"", secret, "text/plain"), False)

        for name, wanted, got in (
            ("encrypted session", "NotSupported", client.error(
                ROOT, SERVICE, "OpenSession", "sv", "dh-ietf1024-sha256-aes128-cbc-pkcs7", ("ay", b"\2" * 128))),
            ("session of another client", "NoSession", other.error(item, ITEM, "GetSecret", "o", session)),
            ("no session", "NoSession", client.error(ROOT, SERVICE, "GetSecrets", "aoo", [item], "/")),
            ("item that is gone", "NoSuchObject", client.error(gone, ITEM, "GetSecret", "o", session)),
            ("its property", "NoSuchObject", client.error(
                gone, "org.freedesktop.DBus.Properties", "Get", "ss", ITEM, "Label")),
            ("another path", "UnknownObject", client.error(ROOT + "/collection/other", COLLECTION_INTERFACE, "Delete")),
            ("secret that is too long", "LimitsExceeded", create({}, b"x" * 65537)),
            ("attributes that are too long", "LimitsExceeded", create({"a": "x" * 4000}, b"x")),
            ("reserved name", "InvalidArgs", create({ITEM + ".Id": "1"}, b"x")),
            ("name that is empty", "InvalidArgs", create({"": "1"}, b"x")),
            ("other types", "InvalidArgs", client.error(ROOT, SERVICE, "Unlock", "as", [item])),
            ("another collection", "NotSupported", client.error(
                ROOT, SERVICE, "CreateCollection", "a{sv}s", {}, "default")),
            ("another alias", "NotSupported", client.error(ROOT, SERVICE, "SetAlias", "so", "other", COLLECTION)),
            ("the alias that is there", None, client.error(ROOT, SERVICE, "SetAlias", "so", "default", COLLECTION)),
            ("prompt that is not there", "NoSuchObject", client.error(
                ROOT + "/prompt/7", PROMPT, "Prompt", "s", "")),
        ):
            environment.cell(name, wanted, got)
        environment.cell("aliases", [COLLECTION, COLLECTION, "/"], [
            client.call(ROOT, SERVICE, "ReadAlias", "s", name)[0] for name in ("default", "login", "session")])
        environment.cell("nothing else was made", 1, len(listed(mount)))
        done = harness.protectfs("secret", "service", mount.path, ok=False, env={
            **mount.volume.environment, "DBUS_SESSION_BUS_ADDRESS": bus.address})
        environment.cell("a second service", (1, True), (done.returncode, "another program provides" in done.stderr))


def test_large_answers(environment):
    """GetSecrets gives each secret once, and refuses what no bus would carry."""
    mount = environment.mount()
    with SecretBus(environment, mount) as bus:
        client = bus.client()
        session = client.session()
        items = [client.create(session, "", {"number": str(number)}, b"x" * 65536) for number in range(260)]
        found = client.call(ROOT, SERVICE, "GetSecrets", "aoo", items[:1] * 3000 + items[1:2], session)[0]
        environment.cell("each once", {item: 65536 for item in items[:2]}, {item: len(found[item][2]) for item in found})
        environment.cell("too much", "LimitsExceeded", client.error(ROOT, SERVICE, "GetSecrets", "aoo", items, session))
        environment.cell("the service goes on", 250, len(client.call(
            ROOT, SERVICE, "GetSecrets", "aoo", items[:250], session)[0]))


def test_prompts(environment):
    """What a prompt is for, and its answer if the store cannot be read when somebody has unlocked."""
    mount = environment.mount()
    go = environment.new_path("go")
    tunables = environment.new_path("tunables")
    ask = (f"echo ${{GLIBC_TUNABLES-none}} >'{tunables}'; while ! test -e '{go}'; do sleep 0.1; done; "
           f"cat '{mount.volume.passphrase_file}'")
    with SecretBus(environment, mount, "--passphrase-command", ask) as bus:
        client = bus.client()
        item = client.create(client.session(), "", {"a": "b"}, b"secret")
        gone = COLLECTION + "/" + "0" * 64
        mount.lock()
        unlock = lambda *paths: client.call(ROOT, SERVICE, "Unlock", "ao", list(paths))
        environment.cell("only objects that are not there", ([], "/"), unlock(gone, "/other"))
        client.listen()
        first, second = (unlock(gone, item, item, COLLECTION)[1] for _ in range(2))

        def completed():
            """Shows both prompts; what they say in the end."""
            for path in (first, second):
                client.call(path, PROMPT, "Prompt", "s", "")
            with open(go, "w", encoding="ascii"):
                pass
            return [client.signals_until("Completed")[-1][1] for _ in range(2)]

        environment.cell("each object once", [(False, ("ao", [item, COLLECTION]))] * 2, completed())
        # The service has started itself again with others.
        environment.cell("the command's environment", b"none\n", harness.read_file(tunables))
        mount.lock()
        os.remove(go)
        first, second = (unlock(item)[1] for _ in range(2))
        os.chmod(mount.path + "/.secrets", 0o777)
        environment.cell("a store that cannot be read", [(True, ("ao", []))] * 2, completed())


def test_signals(environment):
    mount = environment.mount()
    with SecretBus(environment, mount) as bus:
        client, listener = bus.client(), bus.client()
        listener.listen()
        session = client.session()
        item = client.create(session, "Label", {"a": "b"}, b"secret")
        environment.cell("created", [("ItemCreated", (item,)), ("PropertiesChanged", [item])], [
            (name, body if name == "ItemCreated" else body[1]["Items"][1])
            for name, body in listener.signals_until("PropertiesChanged")])
        client.create(session, "Label", {"a": "b"}, b"other", replace=True)
        environment.cell("changed", [("ItemChanged", (item,))], listener.signals_until("ItemChanged"))

        def is_locked(value):
            return lambda body: body[0] == ITEM and body[1] == {"Locked": ("b", value)}

        for value, change in ((True, mount.lock), (False, mount.unlock)):
            change()
            found = listener.signals_until("PropertiesChanged", is_locked(value))
            environment.cell(f"locked: {value}", [
                ("PropertiesChanged", (COLLECTION_INTERFACE, {"Locked": ("b", value)}, [])),
                ("CollectionChanged", (COLLECTION,)), ("PropertiesChanged", (ITEM, {"Locked": ("b", value)}, []))], found)
        client.call(item, ITEM, "Delete")
        environment.cell("deleted", ("ItemDeleted", (item,)), listener.signals_until("ItemDeleted")[-1])


def test_end(environment):
    """The service ends with the mount and with the bus, and keeps no secret after a lock."""
    mount = environment.mount()
    with SecretBus(environment, mount) as bus:
        client = bus.client()
        session = client.session()
        # Lengths with which the library moves an answer that grows after the secret.
        secrets = [os.urandom(length // 2).hex().encode() for length in (20, 24, 30, 34, 64, 100, 200, 500, 1000, 3000)]
        items = [client.create(session, "Label", {"a": str(index)}, secret) for index, secret in enumerate(secrets)]
        item = items[0]
        environment.cell("each secret", secrets, [client.secret(session, item) for item in items])
        found = client.call(ROOT, SERVICE, "GetSecrets", "aoo", items, session)[0]
        environment.cell("all secrets", secrets, [bytes(found[item][2]) for item in items])
        mount.lock()
        # A call later, the messages before it have been freed.
        client.error(item, ITEM, "GetSecret", "o", session)
        if os.geteuid() == 0:
            # Also a part of one: its beginning may have been overwritten.
            ends = {len(secret): secret[-16:] for secret in secrets}
            found = {length for _, part in scan.memory(bus.service.pid) for length, end in ends.items() if end in part}
            environment.cell("secrets in its memory", set(), found)
        else:
            environment.skip("secrets in its memory", "needs root to read the memory of a process")
        mount.unmount()
        environment.cell("the mount ends", 0, bus.service.wait(timeout=harness.PATIENCE))
        bus.mount = environment.mount(mount.volume)
        bus.service = bus.start()
        bus.daemon.send_signal(signal.SIGKILL)
        environment.cell("the bus ends", 1, bus.service.wait(timeout=harness.PATIENCE))
