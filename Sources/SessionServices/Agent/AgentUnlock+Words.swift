// The options of `protectfs unlock` for what the configuration says of unlocking.

import CommandSupport
import HostSystem
import VolumeAccess

extension AgentUnlock {
    /// The options of `protectfs unlock` that do this. Nil if the mount is not unlocked.
    var words: [[UInt8]]? {
        switch self {
        case .no: return nil
        case .tpm2(let device):
            let options = [Array("--\(Option.tpm2.name)".utf8)]
            return options + (device.map { [Array("--tpm2-device".utf8), Array($0.utf8)] } ?? [])
        case .source(let source, let text):
            var value = Array(text.utf8)
            if source == .recipientKey, text.hasPrefix("~/") {
                value = SystemPaths.home.appending(String(text.dropFirst(2))).bytes
            }
            return [Array("--\(source.option.name)".utf8), value]
        }
    }
}

extension AgentUnlock.Source {
    /// The option of `protectfs unlock`.
    var option: Option {
        switch self {
        case .command: .passphraseCommand
        case .credential: .passphraseCredential
        case .recipientKey: .recipientKey
        }
    }
}
