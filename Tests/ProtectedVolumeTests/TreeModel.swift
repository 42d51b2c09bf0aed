// A model of a small tree: the effect of each operation on names, and the states allowed after a power cut.

import VolumeFormat

/// One operation on a tree; paths as `TestVolume` takes them.
enum TreeStep: Hashable, Sendable, CustomStringConvertible {
    case mkdir(String)
    case create(String, synced: Bool)
    case overwrite(String)
    case unlink(String)
    case rmdir(String)
    case rename(String, String)
    case exchange(String, String)
    case link(String, String)
    case symlink(String)
    case setDefault(String, ProtectionClass)
    case setAttribute(String)
    /// To a value that has no room in the store's attribute.
    case setLargeAttribute(String)
    case reencrypt(String)
    case replaceKeybag
    case synchronize(String)
    case synchronizeRoot

    var description: String {
        func short(_ path: String) -> String {
            path.split(separator: "/").map { $0.count > 40 ? "long\($0.last ?? "?")" : String($0) }
                .joined(separator: "/")
        }
        return switch self {
        case .mkdir(let path): "mkdir \(short(path))"
        case .create(let path, let synced): "create \(short(path))\(synced ? " and fsync" : "")"
        case .overwrite(let path): "write \(short(path))"
        case .unlink(let path): "unlink \(short(path))"
        case .rmdir(let path): "rmdir \(short(path))"
        case .rename(let old, let new): "rename \(short(old)) to \(short(new))"
        case .exchange(let old, let new): "exchange \(short(old)) and \(short(new))"
        case .link(let old, let new): "link \(short(old)) as \(short(new))"
        case .symlink(let path): "symlink \(short(path))"
        case .setDefault(let path, let value): "default class \(value.letter) for \(short(path))"
        case .setAttribute(let path): "setxattr \(short(path))"
        case .setLargeAttribute(let path): "setxattr of a large value, \(short(path))"
        case .reencrypt(let path): "re-encrypt \(short(path))"
        case .replaceKeybag: "passphrase change"
        case .synchronize(let path): "fsync \(short(path))"
        case .synchronizeRoot: "fsync of the root"
        }
    }
}

extension TreeStep {
    /// The directories whose entries the step changes.
    var directories: [String] {
        switch self {
        case .mkdir(let path), .create(let path, _), .unlink(let path), .rmdir(let path), .symlink(let path),
            .reencrypt(let path), .link(_, let path):
            [Tree.parent(path)]
        case .rename(let old, let new), .exchange(let old, let new): [Tree.parent(old), Tree.parent(new)]
        case .setDefault(let path, _): [path]
        case .replaceKeybag: [""]
        case .overwrite, .setAttribute, .setLargeAttribute, .synchronize, .synchronizeRoot: []
        }
    }
}

/// An object of the tree.
struct TreeObject: Hashable, Sendable {
    enum Kind: Hashable, Sendable { case directory, file, symlink }

    var kind: Kind
    var defaultClass: ProtectionClass?
    var attribute: String?
}

/// Names and what they name, at one time; this part of the state reaches the disk in order.
struct Tree: Hashable, Sendable {
    var names: [String: Int] = [:]
    var objects: [Int: TreeObject] = [0: TreeObject(kind: .directory)]
    var keybag = 0

    func object(_ path: String) -> (number: Int, TreeObject)? {
        guard let number = path.isEmpty ? 0 : names[path], let object = objects[number] else { return nil }
        return (number, object)
    }

    static func parent(_ path: String) -> String {
        path.split(separator: "/").dropLast().joined(separator: "/")
    }

    func isDirectory(_ path: String) -> Bool { object(path)?.1.kind == .directory }
    func isFree(_ path: String) -> Bool { names[path] == nil && isDirectory(Self.parent(path)) }
    func isEmpty(_ path: String) -> Bool { !names.keys.contains { Self.parent($0) == path } }

    mutating func move(_ old: String, to new: String) {
        for (path, number) in names where path == old || path.hasPrefix(old + "/") {
            names[path] = nil
            names[new + path.dropFirst(old.count)] = number
        }
    }
}

/// A tree with its past since all was durable.
struct TreeModel: Sendable {
    /// The tree after each step; the first is the durable one.
    var trees: [Tree]
    /// No earlier tree than this one may be found.
    var earliest = 0
    /// The contents allowed for each file since its last fsync, and its classes.
    var texts: [Int: Set<String>] = [:]
    var classes: [Int: Set<ProtectionClass>] = [:]
    var explicit: Set<Int> = []
    /// The classes of the last file that lost a name: the next file of that name may take one.
    private var freed: [String: Set<ProtectionClass>] = [:]
    private var current: [Int: String] = [:]
    private var made: [Int: Int] = [:]
    /// The last step that changed an entry of the root.
    private var lastInRoot = 0
    private var next = 100

    init(_ tree: Tree, texts: [Int: String]) {
        trees = [tree]
        current = texts
        for (file, text) in texts {
            self.texts[file] = [text]
            classes[file] = [.completeUntilFirstUserAuthentication]
        }
    }

    /// The tree that the simulations begin with: directories d and e, and the files d/f, x and one of a long name, each with
    /// what `firstText` says.
    static func first(defaultOfE: ProtectionClass? = nil) -> TreeModel {
        var tree = Tree()
        tree.names = ["d": 1, "e": 2]
        tree.objects[1] = TreeObject(kind: .directory)
        tree.objects[2] = TreeObject(kind: .directory, defaultClass: defaultOfE)
        for (number, path) in firstFiles.enumerated() {
            tree.names[path] = number + 3
            tree.objects[number + 3] = TreeObject(kind: .file)
        }
        let texts = firstFiles.enumerated().map { ($0.offset + 3, firstText($0.element)) }
        return TreeModel(tree, texts: Dictionary(uniqueKeysWithValues: texts))
    }

    static let firstFiles = ["d/f", "x", TreeSimulation.long]
    static func firstText(_ path: String) -> String { "old \(path.count)" }

    /// The text that the step with this number writes.
    static func text(_ number: Int) -> String { "text of step \(number)" }
    static func largeText(_ number: Int) -> String { String(repeating: text(number) + ", ", count: 100) }

    /// The tree after a clean end.
    func text(of file: Int) -> String? { current[file] }

    /// Does `step`; false, with nothing changed, where it would be refused or do nothing.
    mutating func apply(_ step: TreeStep) -> Bool {
        var tree = trees[trees.count - 1]
        let number = trees.count
        guard change(&tree, step, number) else { return false }
        if step.directories.contains("") { lastInRoot = number }
        trees.append(tree)
        return true
    }

    private mutating func make(_ tree: inout Tree, _ path: String, _ object: TreeObject) -> Int {
        next += 1
        tree.names[path] = next
        tree.objects[next] = object
        made[next] = trees.count
        return next
    }

    private mutating func change(_ tree: inout Tree, _ step: TreeStep, _ number: Int) -> Bool {
        switch step {
        case .mkdir(let path):
            guard tree.isFree(path) else { return false }
            let inherited = tree.object(Tree.parent(path))?.1.defaultClass
            _ = make(&tree, path, TreeObject(kind: .directory, defaultClass: inherited))
        case .create(let path, let synced):
            guard tree.isFree(path) else { return false }
            let inherited = tree.object(Tree.parent(path))?.1.defaultClass
            let file = make(&tree, path, TreeObject(kind: .file))
            current[file] = Self.text(number)
            texts[file] = synced ? [Self.text(number)] : ["", Self.text(number)]
            let usual = tree.object("")?.1.defaultClass ?? .completeUntilFirstUserAuthentication
            classes[file] = [inherited ?? usual]
            strengthen(file, freed[path])
            if synced { earliest = number }
        case .overwrite(let path):
            guard let (file, object) = tree.object(path), object.kind == .file else { return false }
            current[file] = Self.text(number)
            texts[file]?.insert(Self.text(number))
        case .unlink(let path):
            guard let (file, object) = tree.object(path), object.kind != .directory else { return false }
            tree.names[path] = nil
            freed[path] = classes[file]
        case .rmdir(let path):
            guard tree.isDirectory(path), tree.isEmpty(path) else { return false }
            tree.names[path] = nil
        case .rename(let old, let new): return rename(&tree, old, new)
        case .exchange(let old, let new):
            guard let one = tree.names[old], let other = tree.names[new], one != other else { return false }
            tree.move(old, to: "\u{1}")
            tree.move(new, to: old)
            tree.move("\u{1}", to: new)
        case .link(let old, let new):
            guard let (number, object) = tree.object(old), object.kind != .directory, tree.isFree(new) else {
                return false
            }
            tree.names[new] = number
        case .symlink(let path):
            guard tree.isFree(path) else { return false }
            _ = make(&tree, path, TreeObject(kind: .symlink))
        case .setDefault(let path, let value):
            guard let (directory, object) = tree.object(path), object.kind == .directory,
                object.defaultClass != value
            else { return false }
            tree.objects[directory]?.defaultClass = value
        case .setAttribute(let path):
            guard let (object, found) = tree.object(path), found.kind != .symlink else { return false }
            tree.objects[object]?.attribute = Self.text(number)
        case .setLargeAttribute(let path):
            guard let (object, found) = tree.object(path), found.kind != .symlink else { return false }
            tree.objects[object]?.attribute = Self.largeText(number)
        case .reencrypt(let path):
            guard let (file, object) = tree.object(path), object.kind == .file,
                tree.names.values.count(where: { $0 == file }) == 1, let text = current[file]
            else { return false }
            let new = make(&tree, path, object)
            current[new] = text
            texts[new] = [text]
            classes[new] = [.complete]
            explicit.insert(new)
            // The directory of the new file is synced.
            earliest = number
        case .replaceKeybag:
            guard tree.keybag < 2 else { return false }
            tree.keybag += 1
            earliest = number
        case .synchronize(let path):
            guard let (file, object) = tree.object(path), object.kind == .file, let text = current[file] else {
                return false
            }
            texts[file] = [text]
            earliest = max(earliest, made[file] ?? 0)
        case .synchronizeRoot: earliest = max(earliest, lastInRoot)
        }
        return true
    }

    /// The class of the file whose name it takes goes over, where it is the stronger one.
    private mutating func strengthen(_ file: Int, _ others: Set<ProtectionClass>?) {
        for stronger in others ?? [] where classes[file]?.contains(where: { stronger.isStronger(than: $0) }) ?? false {
            classes[file]?.insert(stronger)
        }
    }

    private mutating func rename(_ tree: inout Tree, _ old: String, _ new: String) -> Bool {
        guard let (moved, object) = tree.object(old), tree.isDirectory(Tree.parent(new)), old != new,
            !new.hasPrefix(old + "/")
        else { return false }
        if let (target, replaced) = tree.object(new) {
            if object.kind == .directory {
                guard replaced.kind == .directory, tree.isEmpty(new) else { return false }
            } else {
                guard replaced.kind != .directory, target != moved else { return false }
                if object.kind == .file, replaced.kind == .file, !explicit.contains(moved) {
                    strengthen(moved, classes[target])
                }
            }
        } else if object.kind == .file, !explicit.contains(moved) {
            strengthen(moved, freed[new])
        }
        if object.kind == .file { freed[old] = classes[moved] }
        tree.names[new] = nil
        tree.move(old, to: new)
        return true
    }
}
