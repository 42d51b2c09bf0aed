// The protocols and kinds of authentication of internet passwords, with the names and texts of Security.framework.

/// The protocol is FTP.
public let kSecAttrProtocolFTP: CFString = "ftp "
/// The protocol is an FTP account.
public let kSecAttrProtocolFTPAccount: CFString = "ftpa"
/// The protocol is HTTP.
public let kSecAttrProtocolHTTP: CFString = "http"
/// The protocol is IRC.
public let kSecAttrProtocolIRC: CFString = "irc "
/// The protocol is NNTP.
public let kSecAttrProtocolNNTP: CFString = "nntp"
/// The protocol is POP3.
public let kSecAttrProtocolPOP3: CFString = "pop3"
/// The protocol is SMTP.
public let kSecAttrProtocolSMTP: CFString = "smtp"
/// The protocol is SOCKS.
public let kSecAttrProtocolSOCKS: CFString = "sox "
/// The protocol is IMAP.
public let kSecAttrProtocolIMAP: CFString = "imap"
/// The protocol is LDAP.
public let kSecAttrProtocolLDAP: CFString = "ldap"
/// The protocol is AFP over AppleTalk.
public let kSecAttrProtocolAppleTalk: CFString = "atlk"
/// The protocol is AFP over TCP.
public let kSecAttrProtocolAFP: CFString = "afp "
/// The protocol is Telnet.
public let kSecAttrProtocolTelnet: CFString = "teln"
/// The protocol is SSH.
public let kSecAttrProtocolSSH: CFString = "ssh "
/// The protocol is FTP over TLS.
public let kSecAttrProtocolFTPS: CFString = "ftps"
/// The protocol is HTTPS.
public let kSecAttrProtocolHTTPS: CFString = "htps"
/// The protocol is an HTTP proxy.
public let kSecAttrProtocolHTTPProxy: CFString = "htpx"
/// The protocol is an HTTPS proxy.
public let kSecAttrProtocolHTTPSProxy: CFString = "htsx"
/// The protocol is an FTP proxy.
public let kSecAttrProtocolFTPProxy: CFString = "ftpx"
/// The protocol is SMB.
public let kSecAttrProtocolSMB: CFString = "smb "
/// The protocol is RTSP.
public let kSecAttrProtocolRTSP: CFString = "rtsp"
/// The protocol is an RTSP proxy.
public let kSecAttrProtocolRTSPProxy: CFString = "rtsx"
/// The protocol is DAAP.
public let kSecAttrProtocolDAAP: CFString = "daap"
/// The protocol is remote Apple events.
public let kSecAttrProtocolEPPC: CFString = "eppc"
/// The protocol is IPP.
public let kSecAttrProtocolIPP: CFString = "ipp "
/// The protocol is NNTP over TLS.
public let kSecAttrProtocolNNTPS: CFString = "ntps"
/// The protocol is LDAP over TLS.
public let kSecAttrProtocolLDAPS: CFString = "ldps"
/// The protocol is Telnet over TLS.
public let kSecAttrProtocolTelnetS: CFString = "tels"
/// The protocol is IMAP over TLS.
public let kSecAttrProtocolIMAPS: CFString = "imps"
/// The protocol is IRC over TLS.
public let kSecAttrProtocolIRCS: CFString = "ircs"
/// The protocol is POP3 over TLS.
public let kSecAttrProtocolPOP3S: CFString = "pops"

/// The authentication is NTLM.
public let kSecAttrAuthenticationTypeNTLM: CFString = "ntlm"
/// The authentication is Microsoft Network.
public let kSecAttrAuthenticationTypeMSN: CFString = "msna"
/// The authentication is distributed password.
public let kSecAttrAuthenticationTypeDPA: CFString = "dpaa"
/// The authentication is remote password.
public let kSecAttrAuthenticationTypeRPA: CFString = "rpaa"
/// The authentication is HTTP basic.
public let kSecAttrAuthenticationTypeHTTPBasic: CFString = "http"
/// The authentication is HTTP digest.
public let kSecAttrAuthenticationTypeHTTPDigest: CFString = "httd"
/// The authentication is HTML form.
public let kSecAttrAuthenticationTypeHTMLForm: CFString = "form"
/// The authentication is the protocol's default.
public let kSecAttrAuthenticationTypeDefault: CFString = "dflt"
