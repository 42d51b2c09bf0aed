// The daemon's answer to the request `path`.

import BackingStore
import CommandSupport
import Control
import HostSystem
import KeyFiles
import ProtectedVolume
import VolumeAccess
import VolumeFormat

extension RunningMount {
    /// Translates between the paths of the mount and of its store.
    func path(_ request: PathRequest) throws(CommandFailure) -> PathReport {
        let place =
            request.isReverse
            ? try place(ofBacking: HostPath(bytes: request.path))
            : try place(ofVisible: HostPath(bytes: request.path), request.allowsMissing)
        var report = PathReport()
        report.visible = HostPath(components: place.visible).bytes
        report.backing = HostPath(components: place.backing.map { Array($0.bytes) }).bytes
        report.companion = place.companion.map { Array($0.bytes) }
        report.kind = place.kind.map(ObjectWords.word)
        report.standing = place.standing.rawValue
        guard report.visible.count + report.backing.count <= PathReport.longestPaths else {
            throw .init(.failure, "\(HostPath(bytes: request.path)): the other path is longer than programs can use")
        }
        return report
    }

    /// Accepts a file, or all files, as they are in the store.
    func trust(_ request: TrustRequest) throws(CommandFailure) {
        let path = request.path.map { HostPath(bytes: $0) }
        let shown = path.map { entry.mountPoint.appending(bytes: $0.bytes) } ?? entry.mountPoint
        do throws(VolumeError) {
            guard let path else { return try volume.accept(nil) }
            try volume.withNode(at: path.components) { (node, _) throws(VolumeError) in
                guard node.kind == .file else { throw .notSupported }
                try volume.accept(node)
            }
        } catch .notSupported {
            throw .init(.failure, "\(shown): this machine keeps versions of files only, and none with -o shared")
        } catch {
            throw Self.explain(error, shown)
        }
    }

    private func place(ofVisible path: HostPath, _ missing: Bool) throws(CommandFailure) -> NamedPlace {
        do throws(VolumeError) {
            return try NamedPlace.find(visible: path.components, in: volume, missing: missing)
        } catch {
            throw Self.explain(error, entry.mountPoint.appending(bytes: path.bytes))
        }
    }

    private func place(ofBacking path: HostPath) throws(CommandFailure) -> NamedPlace {
        let shown = entry.source.appending(bytes: path.bytes)
        let found: Result<NamedPlace, NamelessPlace>
        do throws(VolumeError) {
            let entries = path.components.compactMap { EntryName($0) }
            guard entries.count == path.components.count else { throw .nameTooLong }
            found = try NamedPlace.find(backing: entries, in: volume)
        } catch {
            throw Self.explain(error, shown)
        }
        switch found {
        case .success(let place): return place
        case .failure(let nameless):
            let words = ObjectWords.reserved(nameless.kind)
            throw .init(
                .failure,
                "\(shown): \(words?.what ?? "an object of the store"), without a name on the mount; \(words?.more ?? "")"
            )
        }
    }

    private static func explain(_ error: VolumeError, _ path: HostPath) -> CommandFailure {
        switch error {
        case .refused(.ENOENT): .init(.failure, "\(path): no such file or directory")
        case .refused(let code), .store(let code):
            .init(.failure, "\(path): \(SystemError.reason(of: code.rawValue))")
        default: ErrorMessages.volume(error, path)
        }
    }
}
