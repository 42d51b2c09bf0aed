// `protectfs keys retire`: takes the class keys from before a rotation out of the keybag.

import CommandSupport
import HostSystem

extension Command {
    static let keysRetire = Command(
        "keys retire", .keys, [.volume], "Takes former class keys out of the keybag.",
        details: """
            keys rotate leaves the former keys in the keybag, so that the new keybag opens also the files of a backup that
            were not copied anew. Run this command when all backups are made anew. Afterwards a file from before the
            rotation opens only with a keybag of that time.

            It reads the headers of all files first, and refuses if one needs a former key. Slots are treated as by
            keys rotate, and a new recovery code is shown.
            """,
        options: slotOptions,
        examples: [.init("protectfs keys retire ~/.documents", "After a new backup: forget the former keys.")],
        run: { (arguments) throws(CommandFailure) in try KeysRotate.run(arguments, onlyRetires: true) })
}
