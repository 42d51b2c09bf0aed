// The kinds, protocols and accessibilities of a keychain wrapper, as enumerations over the constants of Security.

import FileProtection
import Secrets

enum ItemKind: CaseIterable {
    case generic
    case internet

    var word: String {
        switch self {
        case .generic: String(kSecClassGenericPassword)
        case .internet: String(kSecClassInternetPassword)
        }
    }
}

enum WebProtocol: CaseIterable {
    case ftp, ftpAccount, http, irc, nntp, pop3, smtp, socks, imap, ldap, appleTalk, afp, telnet, ssh, ftps, https
    case httpProxy, httpsProxy, ftpProxy, smb, rtsp, rtspProxy, daap, eppc, ipp, nntps, ldaps, telnetS, imaps, ircs,
        pop3S

    private static var words: [WebProtocol: CFString] {
        [
            .ftp: kSecAttrProtocolFTP, .ftpAccount: kSecAttrProtocolFTPAccount, .http: kSecAttrProtocolHTTP,
            .irc: kSecAttrProtocolIRC, .nntp: kSecAttrProtocolNNTP, .pop3: kSecAttrProtocolPOP3,
            .smtp: kSecAttrProtocolSMTP, .socks: kSecAttrProtocolSOCKS, .imap: kSecAttrProtocolIMAP,
            .ldap: kSecAttrProtocolLDAP, .appleTalk: kSecAttrProtocolAppleTalk, .afp: kSecAttrProtocolAFP,
            .telnet: kSecAttrProtocolTelnet, .ssh: kSecAttrProtocolSSH, .ftps: kSecAttrProtocolFTPS,
            .https: kSecAttrProtocolHTTPS, .httpProxy: kSecAttrProtocolHTTPProxy,
            .httpsProxy: kSecAttrProtocolHTTPSProxy,
            .ftpProxy: kSecAttrProtocolFTPProxy, .smb: kSecAttrProtocolSMB, .rtsp: kSecAttrProtocolRTSP,
            .rtspProxy: kSecAttrProtocolRTSPProxy, .daap: kSecAttrProtocolDAAP, .eppc: kSecAttrProtocolEPPC,
            .ipp: kSecAttrProtocolIPP, .nntps: kSecAttrProtocolNNTPS, .ldaps: kSecAttrProtocolLDAPS,
            .telnetS: kSecAttrProtocolTelnetS, .imaps: kSecAttrProtocolIMAPS, .ircs: kSecAttrProtocolIRCS,
            .pop3S: kSecAttrProtocolPOP3S,
        ]
    }

    var word: String { Self.words[self]! as String }

    init?(word: String) {
        guard let found = Self.words.first(where: { $0.value as String == word }) else { return nil }
        self = found.key
    }
}

enum WebAuthentication: CaseIterable {
    case ntlm, msn, dpa, rpa, httpBasic, httpDigest, htmlForm, standard

    var word: CFString {
        switch self {
        case .ntlm: kSecAttrAuthenticationTypeNTLM
        case .msn: kSecAttrAuthenticationTypeMSN
        case .dpa: kSecAttrAuthenticationTypeDPA
        case .rpa: kSecAttrAuthenticationTypeRPA
        case .httpBasic: kSecAttrAuthenticationTypeHTTPBasic
        case .httpDigest: kSecAttrAuthenticationTypeHTTPDigest
        case .htmlForm: kSecAttrAuthenticationTypeHTMLForm
        case .standard: kSecAttrAuthenticationTypeDefault
        }
    }
}

enum Availability: CaseIterable, RawRepresentable {
    case whenUnlocked, afterFirstUnlock, always, whenPasscodeSet, whenUnlockedHere, afterFirstUnlockHere, alwaysHere

    var rawValue: CFString {
        switch self {
        case .whenUnlocked: kSecAttrAccessibleWhenUnlocked
        case .afterFirstUnlock: kSecAttrAccessibleAfterFirstUnlock
        case .always: kSecAttrAccessibleAlways
        case .whenPasscodeSet: kSecAttrAccessibleWhenPasscodeSetThisDeviceOnly
        case .whenUnlockedHere: kSecAttrAccessibleWhenUnlockedThisDeviceOnly
        case .afterFirstUnlockHere: kSecAttrAccessibleAfterFirstUnlockThisDeviceOnly
        case .alwaysHere: kSecAttrAccessibleAlwaysThisDeviceOnly
        }
    }

    init?(rawValue: CFString) {
        switch rawValue {
        case kSecAttrAccessibleWhenUnlocked: self = .whenUnlocked
        case kSecAttrAccessibleAfterFirstUnlock: self = .afterFirstUnlock
        case kSecAttrAccessibleAlways: self = .always
        case kSecAttrAccessibleWhenPasscodeSetThisDeviceOnly: self = .whenPasscodeSet
        case kSecAttrAccessibleWhenUnlockedThisDeviceOnly: self = .whenUnlockedHere
        case kSecAttrAccessibleAfterFirstUnlockThisDeviceOnly: self = .afterFirstUnlockHere
        case kSecAttrAccessibleAlwaysThisDeviceOnly: self = .alwaysHere
        default: return nil
        }
    }
}
