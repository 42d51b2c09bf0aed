// The text of a configuration file.

import HostSystem
@testable import VolumeAccess
import VolumeFormat

enum ConfigTarget: FuzzTarget {
    static func fuzz(_ bytes: Span<UInt8>) {
        let input = bytes.copiedBytes()
        let count = input.count { $0 == UInt8(ascii: "\n") } + 1
        let lines: [ConfigurationText.Line]
        do throws(ConfigurationError) { lines = try ConfigurationText.parse(input) } catch {
            check((1...count).contains(error.line) && !error.message.isEmpty, "an error has no place")
            check(!error.message.utf8.contains { $0 < 0x20 }, "an error controls the terminal")
            return
        }
        check(lines.allSatisfy { (1...count).contains($0.number) }, "a setting has no line")
        // Written in one way, they are understood as the same again.
        let text = lines.map { "\($0.key.rawValue) = \($0.text)\n" }.joined()
        if text.utf8.count > ConfigurationText.longest { return }
        guard let again = try? ConfigurationText.parse(Array(text.utf8)) else { fatalError("settings are refused") }
        check(again.map(\.key) == lines.map(\.key) && again.map(\.value) == lines.map(\.value), "settings change")
        check(again.map(\.mountPoint) == lines.map(\.mountPoint), "mount points change")
    }

    static func seeds() -> [[UInt8]] {
        [
            "# rules\nforbid.portable = yes\nrequire.slot=recovery\nrequire.slot=device\n",
            "most.idle = 1h30m # long\r\n",
            "init.cipher = aes-256-gcm\npassphrase.cost = 3 passes 64 MiB",
            "mount.default_class = A\nlock.grace = 0\n\n",
            "least.default_class = none\nleast.cost = 16 passes 4096 MiB\nmost.grace = 300\nonly.cipher = xchacha20-poly1305",
            "agent.lock = session sleep\nagent.lock = /a/../b c: none\nagent.unlock = ~/x: command y # z\nagent.idle = 10m",
            "agent.unlock = credential a\nagent.unlock = /b: recipient-key ~/c\nagent.unlock = /d: tpm2 device:/e",
            "mount.idle = 0\nmount.idle = 1", "= =", "init.ciphers = \u{7f}",
        ].map { Array($0.utf8) }
    }
}
