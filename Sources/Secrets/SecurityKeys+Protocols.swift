// The protocols and kinds of authentication of internet passwords, with the names and texts of Security.framework.

// protectfs: plain Foundation: values in memory, no files.
public import Foundation

/// The protocol is FTP.
public var kSecAttrProtocolFTP: CFString { "ftp " }
/// The protocol is an FTP account.
public var kSecAttrProtocolFTPAccount: CFString { "ftpa" }
/// The protocol is HTTP.
public var kSecAttrProtocolHTTP: CFString { "http" }
/// The protocol is IRC.
public var kSecAttrProtocolIRC: CFString { "irc " }
/// The protocol is NNTP.
public var kSecAttrProtocolNNTP: CFString { "nntp" }
/// The protocol is POP3.
public var kSecAttrProtocolPOP3: CFString { "pop3" }
/// The protocol is SMTP.
public var kSecAttrProtocolSMTP: CFString { "smtp" }
/// The protocol is SOCKS.
public var kSecAttrProtocolSOCKS: CFString { "sox " }
/// The protocol is IMAP.
public var kSecAttrProtocolIMAP: CFString { "imap" }
/// The protocol is LDAP.
public var kSecAttrProtocolLDAP: CFString { "ldap" }
/// The protocol is AFP over AppleTalk.
public var kSecAttrProtocolAppleTalk: CFString { "atlk" }
/// The protocol is AFP over TCP.
public var kSecAttrProtocolAFP: CFString { "afp " }
/// The protocol is Telnet.
public var kSecAttrProtocolTelnet: CFString { "teln" }
/// The protocol is SSH.
public var kSecAttrProtocolSSH: CFString { "ssh " }
/// The protocol is FTP over TLS.
public var kSecAttrProtocolFTPS: CFString { "ftps" }
/// The protocol is HTTPS.
public var kSecAttrProtocolHTTPS: CFString { "htps" }
/// The protocol is an HTTP proxy.
public var kSecAttrProtocolHTTPProxy: CFString { "htpx" }
/// The protocol is an HTTPS proxy.
public var kSecAttrProtocolHTTPSProxy: CFString { "htsx" }
/// The protocol is an FTP proxy.
public var kSecAttrProtocolFTPProxy: CFString { "ftpx" }
/// The protocol is SMB.
public var kSecAttrProtocolSMB: CFString { "smb " }
/// The protocol is RTSP.
public var kSecAttrProtocolRTSP: CFString { "rtsp" }
/// The protocol is an RTSP proxy.
public var kSecAttrProtocolRTSPProxy: CFString { "rtsx" }
/// The protocol is DAAP.
public var kSecAttrProtocolDAAP: CFString { "daap" }
/// The protocol is remote Apple events.
public var kSecAttrProtocolEPPC: CFString { "eppc" }
/// The protocol is IPP.
public var kSecAttrProtocolIPP: CFString { "ipp " }
/// The protocol is NNTP over TLS.
public var kSecAttrProtocolNNTPS: CFString { "ntps" }
/// The protocol is LDAP over TLS.
public var kSecAttrProtocolLDAPS: CFString { "ldps" }
/// The protocol is Telnet over TLS.
public var kSecAttrProtocolTelnetS: CFString { "tels" }
/// The protocol is IMAP over TLS.
public var kSecAttrProtocolIMAPS: CFString { "imps" }
/// The protocol is IRC over TLS.
public var kSecAttrProtocolIRCS: CFString { "ircs" }
/// The protocol is POP3 over TLS.
public var kSecAttrProtocolPOP3S: CFString { "pops" }

/// The authentication is NTLM.
public var kSecAttrAuthenticationTypeNTLM: CFString { "ntlm" }
/// The authentication is Microsoft Network.
public var kSecAttrAuthenticationTypeMSN: CFString { "msna" }
/// The authentication is distributed password.
public var kSecAttrAuthenticationTypeDPA: CFString { "dpaa" }
/// The authentication is remote password.
public var kSecAttrAuthenticationTypeRPA: CFString { "rpaa" }
/// The authentication is HTTP basic.
public var kSecAttrAuthenticationTypeHTTPBasic: CFString { "http" }
/// The authentication is HTTP digest.
public var kSecAttrAuthenticationTypeHTTPDigest: CFString { "httd" }
/// The authentication is HTML form.
public var kSecAttrAuthenticationTypeHTMLForm: CFString { "form" }
/// The authentication is the protocol's default.
public var kSecAttrAuthenticationTypeDefault: CFString { "dflt" }
