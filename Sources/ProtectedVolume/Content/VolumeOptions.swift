// The options of a volume. The mount command, the volume and its contents share this value.

package import VolumeFormat

/// The options of a volume, as `-o` sets them.
package struct VolumeOptions: Sendable, Equatable {
    /// Nothing is written to the backing store.
    package var isReadOnly = false
    /// Other machines write to the same volume. Records are read again, and records set aside are left alone.
    package var isShared = false
    /// The class of new files in directories without a default.
    package var defaultClass = ProtectionClass.volumeDefault
    /// Crash damage is never tolerated.
    package var isStrict = false
    /// Crash damage is tolerated in every file.
    package var recovers = false
    /// A new file takes the strongest class of its name's family and of the last file that had its name.
    package var keepsFamilyClass = true

    /// The defaults: exclusive, writable, class C.
    package init() {}
}
