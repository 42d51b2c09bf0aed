// The options of a volume. The mount command, the volume and its contents share this value.

package import VolumeFormat

/// Which reads move an access time. The store's own options limit it: a store with `noatime` keeps none.
package enum AccessTimes: Sendable, Equatable {
    /// None (`noatime`).
    case never
    /// The first one after a change, and one a day (`relatime`).
    case relative
    /// Every one that reaches the daemon (`strictatime`).
    case always
}

/// The options of a volume, as `-o` sets them.
package struct VolumeOptions: Sendable, Equatable {
    /// Nothing is written to the backing store.
    package var isReadOnly = false
    /// Other machines write to the same volume. Records are read again, and records set aside are left alone.
    package var isShared = false
    /// The class of new files in directories without a default.
    package var defaultClass = ProtectionClass.volumeDefault
    /// The weakest class that a new file gets by default, whatever its directory says, and that a directory's default may have.
    package var leastDefault = ProtectionClass.none
    /// Crash damage is never tolerated.
    package var isStrict = false
    /// A file that is older than this machine has seen it is not opened.
    package var refusesOlder = false
    /// Crash damage is tolerated in every file.
    package var recovers = false
    /// Which reads move access times.
    package var accessTimes = AccessTimes.relative
    /// The same for listings of directories.
    package var directoryAccessTimes = AccessTimes.relative
    /// A new file takes the strongest class of its name's family and of the last file that had its name.
    package var keepsFamilyClass = true

    /// The defaults: exclusive, writable, class C.
    package init() {}

    /// The class that a default means here.
    package func inForce(_ defaultClass: ProtectionClass) -> ProtectionClass {
        leastDefault.isStronger(than: defaultClass) ? leastDefault : defaultClass
    }
}
