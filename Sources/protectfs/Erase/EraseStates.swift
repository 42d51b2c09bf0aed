// Decides which state files `erase` destroys: those of this store, in any version, and those that nothing can read.

import BackingStore
import CLibrary
import HostSystem
import Keybag
import ProtectedVolume
import VolumeAccess
import VolumeFormat

extension EraseRun {
    /// The state files with the UUID of a volume.
    struct StateFiles {
        /// A file that is left alone, and the reason.
        typealias Kept = (path: HostPath, reason: String)

        /// Those that this machine has of the store that is erased.
        private var own: [HostPath] = []
        /// Those that were set aside, and those that an earlier run has begun to destroy. They say nothing of the store.
        private var discarded: [HostPath] = []
        /// Those that name no store, mostly because they are empty, damaged or newer.
        private var nameless: [HostPath] = []
        private var others: [Kept] = []

        /// Whether this machine has used this store as a volume with this UUID. The store's keybag could claim any UUID, but it
        /// cannot write this file.
        var areProof: Bool { !own.isEmpty }

        /// - Parameters:
        ///   - remains: all of one volume.
        ///   - store: the store that is erased.
        init(_ remains: [KeybagRemains], _ store: StateFileLayout.Store) {
            guard let volume = remains.first?.volumeID else { return }
            for file in LocalFile.all(of: volume) where file.isState {
                let path = file.path
                guard EraseRun.isThere(path) else {
                    discarded.append(path)
                    continue
                }
                // After an interrupted run, both names may exist.
                if file.isBeingErased { continue }
                let (state, named) = Self.read(path, of: volume)
                let isHere = named.map { $0.isSameDirectory(as: store) || $0.path == store.path }
                let pins = state.map { state in remains.contains { $0.isPinned(by: state) } } ?? false
                if Self.isUnusual(path) {
                    others.append((path, "it is not a file"))
                } else if isHere == false {
                    let place = named.map { HostPath(bytes: $0.path).description } ?? ""
                    others.append((path, "it belongs to the copy of the volume at \(place)"))
                } else if file.isSetAside {
                    discarded.append(path)
                } else if pins || (isHere == true && !Self.contradicts(state, remains)) {
                    own.append(path)
                } else if isHere == nil, !Self.contradicts(state, remains) {
                    nameless.append(path)
                } else {
                    others.append((path, "it remembers another keybag"))
                }
            }
        }

        /// Whether a state file remembers another public key than a keybag that can be read.
        private static func contradicts(_ state: StateFile?, _ remains: [KeybagRemains]) -> Bool {
            guard let state, state.layout.isPinned else { return false }
            return remains.contains { $0.isWhole && !$0.isPinned(by: state) }
        }

        /// Decides about all of them.
        ///
        /// - Parameter isProven: whether it is certain that the store's keybag is of this UUID. Otherwise the files may be those
        ///   of another volume, and nothing is destroyed.
        func decide(isProven: Bool) -> (destroyed: [HostPath], kept: [Kept]) {
            guard isProven else {
                let doubted = (nameless + discarded.filter(EraseRun.isThere)).map { path -> Kept in
                    (path, "nothing proves that it belongs to this volume")
                }
                return (discarded.filter { !EraseRun.isThere($0) }, others + doubted)
            }
            // A file that cannot be read is this store's own, unless another file is.
            let isOwnNameless = own.isEmpty
            let foreign = isOwnNameless ? [] : nameless.map { path -> Kept in (path, "it cannot be read") }
            return (own + (isOwnNameless ? nameless : []) + discarded, others + foreign)
        }

        /// The stores that this machine has seen of a volume.
        static func stores(of volume: VolumeID) -> [StateFileLayout.Store] {
            let states = LocalFile.all(of: volume).filter { $0.isState && !$0.isSetAside }
            return states.compactMap { read($0.path, of: volume).store }
        }

        /// The content and the store of a state file. A newer one has no content that can be read.
        private static func read(
            _ path: HostPath, of volume: VolumeID
        ) -> (state: StateFile?, store: StateFileLayout.Store?) {
            guard let bytes = try? readFile(path) else { return (nil, nil) }
            do throws(StateFileDefect) {
                let state = try StateFile(parsing: bytes, of: volume)
                return (state, state.layout.store)
            } catch .newer {
                return (nil, StateFileLayout.store(ofNewer: bytes.span))
            } catch {
                return (nil, nil)
            }
        }

        /// Whether it is something else than a file or a link to one.
        private static func isUnusual(_ path: HostPath) -> Bool {
            (try? FileStatus.read(path)).map { ![S_IFREG, S_IFLNK].contains($0.st_mode & S_IFMT) } ?? false
        }
    }
}
