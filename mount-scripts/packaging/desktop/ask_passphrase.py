"""Asks for a passphrase in a window and writes it to standard output, which must be a pipe.

Usage: ask_passphrase.py VOLUME [COMPLAINT]. The exit code is 0 after an answer, 1 if the user cancels, 2 if it cannot ask.
GTK keeps the text of a password field in memory that is locked and is wiped when it is freed. The bytes go from there to
the pipe without becoming a value of Python, which could not be wiped.
"""

import ctypes
import os
import resource
import stat
import sys

PR_SET_DUMPABLE = 4


def protect():
    """Keeps this process out of core dumps and debuggers."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)


def write_text(entry):
    """Writes the bytes of a field, and a newline, to standard output."""
    gtk = ctypes.CDLL("libgtk-4.so.1")
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    gtk.gtk_editable_get_text.restype, gtk.gtk_editable_get_text.argtypes = ctypes.c_void_p, [ctypes.c_void_p]
    library = ctypes.CDLL(None, use_errno=True)
    library.strlen.restype, library.strlen.argtypes = ctypes.c_size_t, [ctypes.c_void_p]
    library.write.restype, library.write.argtypes = ctypes.c_ssize_t, [ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t]
    text = gtk.gtk_editable_get_text(pointer(entry.__gpointer__, None))
    length, done = library.strlen(text), 0
    while done < length:
        count = library.write(1, text + done, length - done)
        if count < 0:
            raise OSError(ctypes.get_errno(), "the passphrase could not be passed on")
        done += count
    os.write(1, b"\n")


def main(volume, complaint=""):
    if not stat.S_ISFIFO(os.fstat(1).st_mode):
        sys.exit("ask_passphrase: standard output must be a pipe")
    protect()
    import gi
    gi.require_version("Gtk", "4.0")
    from gi.repository import GLib, Gtk
    if not Gtk.init_check():
        print("ask_passphrase: there is no display", file=sys.stderr)
        return 2
    loop, answer = GLib.MainLoop(), []
    window = Gtk.Window(title="Unlock", resizable=False, default_width=380, icon_name="protectfs-locked")
    box = Gtk.Box(orientation=Gtk.Orientation.VERTICAL, spacing=12, margin_top=18, margin_bottom=18, margin_start=18,
                  margin_end=18)
    box.append(Gtk.Label(label=f"Passphrase of {volume}", xalign=0, wrap=True))
    entry = Gtk.PasswordEntry(show_peek_icon=True, activates_default=True, hexpand=True)
    box.append(entry)
    if complaint:
        problem = Gtk.Label(label=complaint, xalign=0, wrap=True)
        problem.add_css_class("error")
        box.append(problem)
    buttons = Gtk.Box(spacing=6, halign=Gtk.Align.END)
    cancel, unlock = Gtk.Button(label="Cancel"), Gtk.Button(label="Unlock")
    unlock.add_css_class("suggested-action")
    buttons.append(cancel)
    buttons.append(unlock)
    box.append(buttons)
    window.set_child(box)
    window.set_default_widget(unlock)

    def give(_):
        answer.append(True)
        loop.quit()

    unlock.connect("clicked", give)
    cancel.connect("clicked", lambda _: loop.quit())
    window.connect("close-request", lambda _: loop.quit())
    keys = Gtk.ShortcutController()
    keys.add_shortcut(Gtk.Shortcut.new(Gtk.ShortcutTrigger.parse_string("Escape"),
                                       Gtk.CallbackAction.new(lambda *_: loop.quit() or True)))
    window.add_controller(keys)
    window.present()
    entry.grab_focus()
    loop.run()
    if answer:
        write_text(entry)
    return 0 if answer else 1


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3):
        sys.exit("usage: ask_passphrase.py VOLUME [COMPLAINT]")
    # os._exit leaves nothing to run that could wait for the display.
    os._exit(main(*sys.argv[1:]))
