// libfido2, loaded when it is first used, and the security keys that are connected.

internal import CFido2
package import HostSystem
internal import SodiumKit

/// The functions of libfido2. Every thread that uses them prepares the library by `prepared`.
@safe struct FIDOLibrary: Sendable {
    /// The functions. Pointers into a library that is never unloaded.
    let call: pfs_fido

    private static let loaded: FIDOLibrary? = {
        var functions = pfs_fido()
        guard unsafe pfs_fido_load(&functions) == 1 else { return nil }
        return FIDOLibrary(call: functions)
    }()

    /// The library, prepared for this thread: without the older protocol U2F, which has no extensions.
    static func prepared() throws(SecurityKeyError) -> FIDOLibrary {
        guard let library = loaded else { throw .noLibrary }
        library.call.`init`(Int32(PFS_FIDO_NO_U2F))
        return library
    }

    /// Has a device use another transport.
    func setTransport(of device: OpaquePointer, _ functions: inout pfs_fido_io) -> Int32 {
        var call = call
        return unsafe pfs_fido_set_io(&call, device, &functions)
    }
}

/// A security key that is connected.
package struct ConnectedKey: Sendable {
    /// The place at which it is opened.
    package let path: HostPath
    /// Its maker and name, as it gives them. Printable ASCII.
    package let name: String

    /// The most that are looked at.
    private static let most = 64

    /// The keys that are connected to this machine by USB.
    package static func all() throws(SecurityKeyError) -> [ConnectedKey] {
        let library = try FIDOLibrary.prepared()
        var list = library.call.dev_info_new(most)
        guard unsafe list != nil else { throw .memory(.outOfMemory) }
        defer { unsafe library.call.dev_info_free(&list, most) }
        var count = 0
        guard unsafe library.call.dev_info_manifest(list, most, &count) == PFS_FIDO_OK else { return [] }
        return (0..<min(count, most)).compactMap { index in
            guard let one = unsafe library.call.dev_info_ptr(list, index),
                let path = unsafe library.call.dev_info_path(one)
            else { return nil }
            let words = unsafe [
                library.call.dev_info_manufacturer_string(one), library.call.dev_info_product_string(one),
            ]
            let name = unsafe words.compactMap { unsafe $0.map { unsafe shown(String(cString: $0)) } }
                .filter { !$0.isEmpty }.joined(separator: " ")
            return ConnectedKey(path: HostPath(unsafe String(cString: path)), name: name)
        }
    }

    /// What a device says of itself, without characters that a terminal would obey.
    private static func shown(_ text: String) -> String {
        String(String.UnicodeScalarView(text.unicodeScalars.filter { (0x20...0x7e).contains($0.value) }.prefix(64)))
    }
}
