// What is known of the extended attributes that the store has of an object.

internal import VolumeFormat

/// Whether an object has encrypted attributes and ACLs in the store, so that names that cannot be there are not looked for:
/// programs and the kernel ask for `security.selinux` and for ACLs of every file.
///
/// Not used with `-o shared`, where other machines set attributes too.
struct KnownAttributes: Sendable {
    /// Counts changes, so that a listing from before a change is not believed after it.
    private(set) var changes: UInt32 = 0
    /// Nil if it is not known.
    private(set) var hasEncrypted: Bool?
    private(set) var hasACL: Bool?

    /// Notes the names that the store has, as listed when `changes` was this number.
    mutating func note(_ names: [[UInt8]], seenAt number: UInt32) {
        guard number == changes else { return }
        hasEncrypted = names.contains { NameCipher.isEncryptedAttribute($0) }
        hasACL = names.contains(where: NameCipher.isACL)
    }

    /// Notes that the object was just made. It has an ACL only if its directory has a default ACL.
    mutating func noteNew(hasACL: Bool?) {
        hasEncrypted = false
        self.hasACL = hasACL
    }

    /// Called after an attribute was set.
    mutating func changed() {
        changes &+= 1
        hasEncrypted = nil
        hasACL = nil
    }
}
