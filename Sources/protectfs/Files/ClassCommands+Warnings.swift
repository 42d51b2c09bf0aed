// The warnings of `class list` and `class set` about files whose class differs from that of new files beside them.

import CommandSupport
import HostSystem
import VolumeFormat

extension ClassCommands {
    /// How a file's class compares with the class of new files in its directory.
    enum Difference {
        case same, weaker, stronger

        /// Compares `entry` with the class of new files in its directory. A directory with a stronger default is not marked.
        init(_ entry: Entry, _ inherited: Inherited) {
            self = .same
            guard let own = entry.protectionClass, let inherited = inherited.protectionClass else { return }
            if inherited.isStronger(than: own) { self = .weaker }
            if own.isStronger(than: inherited), !entry.isDirectory { self = .stronger }
        }
    }

    /// Collects warnings, one for each directory and kind, in the order of the first file.
    struct DefaultWarnings {
        private struct Group {
            let directory: HostPath
            let given: ProtectionClass
            var strongest: ProtectionClass
            var weaker = 0
            var stronger = 0
        }

        private var groups: [Group] = []
        private var index: [HostPath: Int] = [:]

        /// Notes a file that differs.
        mutating func take(_ entry: Entry, _ inherited: Inherited, _ difference: Difference) {
            guard difference != .same, !entry.isDirectory, let own = entry.protectionClass,
                let inherited = inherited.protectionClass
            else { return }
            let directory = entry.path.parent
            let at = index[directory] ?? groups.count
            if at == groups.count {
                index[directory] = at
                groups.append(Group(directory: directory, given: inherited, strongest: own))
            }
            if own.isStronger(than: groups[at].strongest) { groups[at].strongest = own }
            if difference == .weaker { groups[at].weaker += 1 } else { groups[at].stronger += 1 }
        }

        /// The directories whose new files are weaker than files there: the class of new files, the strongest class there, and
        /// how many files are stronger.
        var weakDefaults: [(directory: HostPath, given: ProtectionClass, strongest: ProtectionClass, count: Int)] {
            groups.filter { $0.stronger > 0 }.map { ($0.directory, $0.given, $0.strongest, $0.stronger) }
        }

        /// Prints them on standard error, a line for each.
        func show() {
            for group in groups {
                let place = "\(group.directory): new files get class \(group.given.shortName)"
                func change(_ wanted: ProtectionClass, _ path: String) -> String {
                    "protectfs class set \(wanted.shortName) \(path) changes that"
                }
                if group.stronger > 0 {
                    Output.error(
                        "\(place), \(Self.files(group.stronger, group.strongest)); \(change(group.strongest, group.directory.word))"
                    )
                }
                if group.weaker > 0 {
                    Output.error(
                        "\(place), \(Self.files(group.weaker, nil)); \(change(group.given, "FILE"))")
                }
            }
        }

        private static func files(_ count: Int, _ strongest: ProtectionClass?) -> String {
            let what = count == 1 ? "a file there has" : "\(count) files there have"
            return "\(what) a \(strongest.map { "stronger one (\($0.shortName))" } ?? "weaker one")"
        }
    }
}
