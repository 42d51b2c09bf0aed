"""A StatusNotifierItem with a menu (com.canonical.dbusmenu) on the session bus, for desktops' panels; no toolkit is used."""

import os

from gi.repository import Gio, GLib

ITEM_PATH, MENU_PATH = "/StatusNotifierItem", "/MenuBar"
WATCHER = "org.kde.StatusNotifierWatcher"
ITEM = Gio.DBusNodeInfo.new_for_xml("""<node><interface name="org.kde.StatusNotifierItem">
  <method name="ContextMenu"><arg type="i" direction="in"/><arg type="i" direction="in"/></method>
  <method name="Activate"><arg type="i" direction="in"/><arg type="i" direction="in"/></method>
  <method name="SecondaryActivate"><arg type="i" direction="in"/><arg type="i" direction="in"/></method>
  <method name="Scroll"><arg type="i" direction="in"/><arg type="s" direction="in"/></method>
  <signal name="NewIcon"/><signal name="NewToolTip"/><signal name="NewStatus"><arg type="s"/></signal>
  <property name="Category" type="s" access="read"/><property name="Id" type="s" access="read"/>
  <property name="Title" type="s" access="read"/><property name="Status" type="s" access="read"/>
  <property name="IconName" type="s" access="read"/><property name="IconThemePath" type="s" access="read"/>
  <property name="ToolTip" type="(sa(iiay)ss)" access="read"/><property name="ItemIsMenu" type="b" access="read"/>
  <property name="Menu" type="o" access="read"/><property name="WindowId" type="i" access="read"/>
</interface></node>""").interfaces[0]
MENU = Gio.DBusNodeInfo.new_for_xml("""<node><interface name="com.canonical.dbusmenu">
  <method name="GetLayout"><arg type="i" direction="in"/><arg type="i" direction="in"/><arg type="as" direction="in"/>
    <arg type="u" direction="out"/><arg type="(ia{sv}av)" direction="out"/></method>
  <method name="GetGroupProperties"><arg type="ai" direction="in"/><arg type="as" direction="in"/>
    <arg type="a(ia{sv})" direction="out"/></method>
  <method name="GetProperty"><arg type="i" direction="in"/><arg type="s" direction="in"/><arg type="v" direction="out"/>
  </method>
  <method name="Event"><arg type="i" direction="in"/><arg type="s" direction="in"/><arg type="v" direction="in"/>
    <arg type="u" direction="in"/></method>
  <method name="EventGroup"><arg type="a(isvu)" direction="in"/><arg type="ai" direction="out"/></method>
  <method name="AboutToShow"><arg type="i" direction="in"/><arg type="b" direction="out"/></method>
  <method name="AboutToShowGroup"><arg type="ai" direction="in"/><arg type="ai" direction="out"/>
    <arg type="ai" direction="out"/></method>
  <signal name="LayoutUpdated"><arg type="u"/><arg type="i"/></signal>
  <property name="Version" type="u" access="read"/><property name="Status" type="s" access="read"/>
  <property name="TextDirection" type="s" access="read"/><property name="IconThemePath" type="as" access="read"/>
</interface></node>""").interfaces[0]


class Row:
    """One row of the menu. `key` tells it from other rows; a row without a text is a line; one without an action is grey."""

    def __init__(self, key, text=None, action=None):
        self.key, self.text, self.action = key, text, action

    def properties(self):
        if self.text is None:
            return {"type": GLib.Variant("s", "separator")}
        return {"label": GLib.Variant("s", self.text.replace("_", "__")), "enabled": GLib.Variant("b", bool(self.action))}


class TrayMenu:
    """The item and its menu. `show` may be called at any time; a panel that starts later gets them too."""

    def __init__(self, connection, no_panel):
        self.connection, self.no_panel = connection, no_panel
        self.icon, self.tip, self.rows, self.revision = "protectfs-locked", "", {}, 1
        # A row keeps its number, and no other row ever gets it: a click on a menu of before does nothing wrong.
        self.numbers = {}
        self.name = f"org.kde.StatusNotifierItem-{os.getpid()}-1"
        connection.register_object(ITEM_PATH, ITEM, self.item_called, self.item_property, None)
        connection.register_object(MENU_PATH, MENU, self.menu_called, self.menu_property, None)
        Gio.bus_own_name_on_connection(connection, self.name, Gio.BusNameOwnerFlags.NONE, None, None)
        Gio.bus_watch_name_on_connection(connection, WATCHER, Gio.BusNameWatcherFlags.AUTO_START, self.register,
                                         lambda *_: no_panel())

    def show(self, icon, tip, rows):
        """The icon's name, the text of the tool tip, and the rows from above."""
        for row in rows:
            self.numbers.setdefault(row.key, len(self.numbers) + 1)
        self.icon, self.tip = icon, tip
        self.rows = {self.numbers[row.key]: row for row in rows}
        self.revision += 1
        for signal in ("NewIcon", "NewToolTip"):
            self.connection.emit_signal(None, ITEM_PATH, ITEM.name, signal, None)
        self.connection.emit_signal(None, MENU_PATH, MENU.name, "LayoutUpdated", GLib.Variant("(ui)", (self.revision, 0)))

    def register(self, connection, *_):
        connection.call(WATCHER, "/StatusNotifierWatcher", WATCHER, "RegisterStatusNotifierItem",
                        GLib.Variant("(s)", (self.name,)), None, Gio.DBusCallFlags.NONE, -1, None, None)

    def item_called(self, _, __, ___, ____, _____, ______, invocation):
        # The panel shows the menu itself, as ItemIsMenu tells it.
        invocation.return_value(None)

    def item_property(self, _, __, ___, ____, name):
        return {
            "Category": GLib.Variant("s", "SystemServices"), "Id": GLib.Variant("s", "protectfs"),
            "Title": GLib.Variant("s", "protectfs"), "Status": GLib.Variant("s", "Active"),
            "IconName": GLib.Variant("s", self.icon), "IconThemePath": GLib.Variant("s", ""),
            "ToolTip": GLib.Variant("(sa(iiay)ss)", (self.icon, [], "protectfs", self.tip)),
            "ItemIsMenu": GLib.Variant("b", True), "Menu": GLib.Variant("o", MENU_PATH), "WindowId": GLib.Variant("i", 0),
        }[name]

    def menu_property(self, _, __, ___, ____, name):
        return {"Version": GLib.Variant("u", 3), "Status": GLib.Variant("s", "normal"),
                "TextDirection": GLib.Variant("s", "ltr"), "IconThemePath": GLib.Variant("as", [])}[name]

    def properties(self, number):
        if number == 0:
            return {"children-display": GLib.Variant("s", "submenu")}
        return self.rows[number].properties() if number in self.rows else {}

    def layout(self, parent):
        children = self.rows if parent == 0 else ()
        return (parent, self.properties(parent),
                [GLib.Variant("(ia{sv}av)", (number, self.properties(number), [])) for number in children])

    def clicked(self, number, event):
        """False if there is no such row."""
        row = self.rows.get(number)
        if row and event == "clicked" and row.action:
            # The answer goes first: an action may end the program.
            GLib.idle_add(lambda: row.action() and False)
        return row is not None or number == 0

    def menu_called(self, _, __, ___, ____, method, arguments, invocation):
        values = arguments.unpack()
        answer = None
        if method == "GetLayout":
            answer = GLib.Variant("(u(ia{sv}av))", (self.revision, self.layout(values[0])))
        elif method == "GetGroupProperties":
            numbers = values[0] or [0, *self.rows]
            answer = GLib.Variant("(a(ia{sv}))", ([(number, self.properties(number)) for number in numbers],))
        elif method == "GetProperty":
            value = self.properties(values[0]).get(values[1])
            if value is None:
                invocation.return_dbus_error("org.freedesktop.DBus.Error.InvalidArgs", "no such property")
                return
            answer = GLib.Variant("(v)", (value,))
        elif method == "Event":
            self.clicked(values[0], values[1])
        elif method == "EventGroup":
            answer = GLib.Variant("(ai)", ([event[0] for event in values[0] if not self.clicked(event[0], event[1])],))
        elif method == "AboutToShow":
            answer = GLib.Variant("(b)", (False,))
        elif method == "AboutToShowGroup":
            answer = GLib.Variant("(aiai)", ([], [number for number in values[0] if number and number not in self.rows]))
        invocation.return_value(answer)
