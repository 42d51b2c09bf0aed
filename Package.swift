// swift-tools-version: 6.3
// The house: every module uses only modules above it in this list.
import PackageDescription

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#elseif canImport(Darwin)
    import Darwin
#endif

let strict: [SwiftSetting] = [
    .strictMemorySafety(),
    .treatAllWarnings(as: .error),
    .enableUpcomingFeature("ExistentialAny"),
    .enableUpcomingFeature("InternalImportsByDefault"),
    .enableUpcomingFeature("MemberImportVisibility"),
]

// The sanitizers run the tests of modules with unsafe code, and those that start threads. Other modules have no memory of their
// own: the fuzz target `volume` has those of the volume run with the address sanitizer.
let sanitized = [
    "address": [
        "HostSystem", "VolumeFormat", "SodiumKit", "BackingStore", "FuseBridge", "Control", "SecurityKey", "DBus",
        "FileProtection",
    ],
    "thread": [
        "HostSystem", "SodiumKit", "Keybag", "KeyFiles", "ProtectedVolume", "VolumeCheck", "FuseBridge",
        "FuseFrontend", "Control", "FileProtection",
    ],
]

// What mount-scripts/run-tests builds: everything ("release"), all unit tests ("all"), with the program for mount tests ("quick"), or
// those for a sanitizer; with the address sanitizer's also the fuzzing program.
let choice = Context.environment["PROTECTFS_TESTS"]

/// A module, and its unit tests unless it is `untested`: then mount tests run its code.
func module(
    _ name: String, uses dependencies: [String] = [], tests support: [String] = [], with settings: [SwiftSetting] = [],
    threads: [String]? = nil, untested: Bool = false
) -> [Target] {
    let target = Target.target(
        name: name, dependencies: dependencies.map { .byName(name: $0) }, swiftSettings: strict + settings)
    if untested { return [target] }
    return [
        target,
        .testTarget(
            name: name + "Tests",
            dependencies: ([name] + dependencies + support).map { .byName(name: $0) },
            sources: choice == "thread" ? threads : nil,
            swiftSettings: strict),
    ]
}

// IPsec-MB is Intel's; elsewhere OpenSSL does its work.
#if arch(x86_64)
    let cipherLibraries: [Target] = [
        .systemLibrary(name: "CIPSecMB", providers: [.apt(["libipsec-mb-dev"])])
    ]
#else
    let cipherLibraries: [Target] = []
#endif

let libraries: [Target] = [
    .systemLibrary(name: "CFuse3", pkgConfig: "fuse3", providers: [.apt(["libfuse3-dev"])]),
    .systemLibrary(name: "CSodium", pkgConfig: "libsodium", providers: [.apt(["libsodium-dev"])]),
    .systemLibrary(name: "CZxcvbn", providers: [.apt(["libzxcvbn-dev"])]),
    .systemLibrary(name: "CSystemd", providers: [.apt(["libsystemd-dev"])]),
    .target(name: "COpenSSL", linkerSettings: [.linkedLibrary("crypto")]),
    .target(name: "CLinuxShim"),
    .target(name: "CConnectionGuard"),
    .target(name: "CFido2"),
    .target(name: "CLibrary", swiftSettings: strict),
]

// Only examples use it, and only where its header is: nothing else needs the package. Named as Apple's module is.
let database: [Target] =
    access("/usr/include/sqlite3.h", R_OK) == 0
    ? [.systemLibrary(name: "SQLite3", providers: [.apt(["libsqlite3-dev"])])] : []

// Stand-ins and helpers that only tests use: a store in memory that can lose power, and the tables of stored fields.
let testSupport: [Target] = [
    .target(
        name: "MemoryStore", dependencies: ["BackingStore", "HostSystem"], path: "Tests/MemoryStore",
        swiftSettings: strict),
    .target(
        name: "TestSupport", dependencies: ["BackingStore", "HostSystem", "VolumeFormat"], path: "Tests/TestSupport",
        swiftSettings: strict),
]

let modules: [[Target]] = [
    // Raw layout is what the standard library's own locks are made of.
    module("HostSystem", uses: ["CLibrary", "CLinuxShim"], with: [.enableExperimentalFeature("RawLayout")]),
    module("VolumeFormat"),
    module(
        "SodiumKit",
        uses: ["CLibrary", "CSodium", "COpenSSL"] + cipherLibraries.map(\.name) + [
            "CLinuxShim", "HostSystem", "VolumeFormat",
        ]),
    module("PassphraseStrength", uses: ["CZxcvbn", "SodiumKit"]),
    module(
        "Keybag", uses: ["SodiumKit", "VolumeFormat", "HostSystem"], tests: ["TestSupport"],
        threads: ["Threads", "Support.swift"]),
    module("BackingStore", uses: ["CLibrary", "CLinuxShim", "VolumeFormat", "HostSystem"], tests: ["MemoryStore"]),
    module(
        "KeyFiles", uses: ["Keybag", "VolumeFormat", "BackingStore", "SodiumKit", "HostSystem"],
        tests: ["TestSupport", "MemoryStore"], threads: ["Threads"]),
    module(
        "FileContents",
        uses: ["KeyFiles", "Keybag", "VolumeFormat", "BackingStore", "SodiumKit", "HostSystem"]),
    module(
        "ProtectedVolume",
        uses: [
            "CLibrary", "FileContents", "KeyFiles", "Keybag", "VolumeFormat", "BackingStore", "SodiumKit", "HostSystem",
        ],
        tests: ["VolumeCheck", "TestSupport", "MemoryStore"], threads: ["Threads", "Support"]),
    module(
        "VolumeCheck",
        uses: [
            "ProtectedVolume", "FileContents", "KeyFiles", "Keybag", "VolumeFormat", "BackingStore", "SodiumKit",
            "HostSystem",
        ],
        tests: ["TestSupport", "MemoryStore"], threads: ["Threads"]),
    module("FuseBridge", uses: ["CFuse3", "CLibrary", "CLinuxShim", "HostSystem"]),
    module(
        "FuseFrontend",
        uses: [
            "FuseBridge", "ProtectedVolume", "FileContents", "KeyFiles", "Keybag", "VolumeFormat", "BackingStore",
            "SodiumKit", "HostSystem", "CLibrary",
        ],
        tests: ["MemoryStore"]),
    module("Control", uses: ["CLibrary", "Keybag", "SodiumKit", "VolumeFormat", "HostSystem", "CLinuxShim"]),
    module("SecurityKey", uses: ["CFido2", "CLibrary", "SodiumKit", "VolumeFormat", "HostSystem"]),
    module("DBus", uses: ["CLibrary", "CSystemd", "HostSystem"]),
    module("SecretStore", uses: ["CLibrary", "SodiumKit", "VolumeFormat", "HostSystem"]),
]

// For programs that steer mounts: windows, agents, the agent of this package. It needs no Foundation.
let control: [Target] = [
    .target(
        name: "VolumeControl",
        dependencies: ["CLibrary", "Control", "Keybag", "SodiumKit", "VolumeFormat", "HostSystem"],
        swiftSettings: strict),
    .executableTarget(
        name: "porting-control", dependencies: ["VolumeControl"], path: "Tests/Porting/Control", swiftSettings: strict),
]

// The program `protectfs` without its commands. TreeImport, SessionServices and MountDaemon do not know each other.
let programModules: [[Target]] = [
    module(
        "CommandSupport", uses: ["CLibrary", "Control", "Keybag", "SodiumKit", "VolumeFormat", "HostSystem"],
        untested: true),
    module(
        "VolumeAccess",
        uses: [
            "CommandSupport", "KeyFiles", "SecurityKey", "PassphraseStrength", "Control", "Keybag", "BackingStore",
            "SodiumKit", "VolumeFormat", "HostSystem", "CLibrary",
        ],
        untested: true),
    module(
        "TreeImport",
        uses: [
            "VolumeAccess", "CommandSupport", "Control", "Keybag", "BackingStore", "VolumeFormat", "HostSystem",
            "CLibrary",
        ],
        untested: true),
    module(
        "SessionServices",
        uses: [
            "VolumeAccess", "CommandSupport", "VolumeControl", "SecretStore", "DBus", "Control", "Keybag", "SodiumKit",
            "VolumeFormat", "HostSystem", "CLibrary",
        ],
        untested: true),
    module(
        "MountDaemon",
        uses: [
            "VolumeAccess", "CommandSupport", "FuseFrontend", "FuseBridge", "VolumeCheck", "ProtectedVolume",
            "FileContents", "KeyFiles", "Control", "Keybag", "BackingStore", "SodiumKit", "VolumeFormat", "HostSystem",
            "CConnectionGuard", "CLibrary",
        ],
        untested: true),
]

// The release build's program contains the Swift libraries, so that it runs on systems without Swift.
let command: [Target] = [
    .executableTarget(
        name: "protectfs",
        dependencies: [
            "CommandSupport", "VolumeAccess", "TreeImport", "SessionServices", "MountDaemon", "FuseFrontend",
            "VolumeCheck", "ProtectedVolume", "FileContents", "KeyFiles", "SecretStore", "Control", "Keybag",
            "BackingStore", "SodiumKit", "VolumeFormat", "HostSystem", "CLibrary",
        ],
        swiftSettings: strict,
        linkerSettings: [.unsafeFlags(["-static-stdlib"], .when(platforms: [.linux], configuration: .release))])
]

// The vectors of docs/judge/volume-format-vectors.json, across all modules that have a part in the format.
let formatVectors: [Target] = [
    .testTarget(
        name: "FormatVectorsTests",
        dependencies: [
            "SodiumKit", "VolumeFormat", "Keybag", "BackingStore", "KeyFiles", "FileContents", "ProtectedVolume",
            "HostSystem", "MemoryStore", "Control",
        ],
        swiftSettings: strict)
]

// For programs: Foundation is allowed in these, and nowhere else.
let programLibraries: [[Target]] = [
    [.target(name: "PlainFoundation", swiftSettings: strict)],
    module("FileProtection", uses: ["CLibrary", "CLinuxShim", "PlainFoundation", "VolumeFormat", "HostSystem"]),
]

// Parsers of untrusted bytes under libFuzzer, which needs their code instrumented: built with the address sanitizer's tests alone.
let fuzzing: [Target] =
    choice != "address"
    ? []
    : [
        .systemLibrary(name: "CLibFuzzer", path: "Tests/Fuzz/CLibFuzzer"),
        .executableTarget(
            name: "fuzz",
            dependencies: [
                "CLibFuzzer", "MemoryStore", "HostSystem", "VolumeFormat", "SodiumKit", "Keybag", "BackingStore",
                "KeyFiles", "FileContents", "ProtectedVolume", "VolumeCheck", "FuseFrontend", "Control",
                "CommandSupport", "VolumeAccess",
            ],
            path: "Tests/Fuzz", exclude: ["CLibFuzzer", "regressions"], swiftSettings: strict,
            linkerSettings: [.unsafeFlags(["-sanitize=fuzzer", "-use-ld=lld"])]),
    ]

// Lists a program's files that import Foundation past FileProtection: `swift package check-imports`.
let importCheck: [Target] =
    module("ImportCheck") + [
        .executableTarget(
            name: "check-imports", dependencies: ["ImportCheck", "CLibrary", "HostSystem"],
            path: "Sources/CheckImports",
            swiftSettings: strict),
        .plugin(
            name: "CheckImports",
            capability: .command(
                intent: .custom(
                    verb: "check-imports", description: "List files that import Foundation past FileProtection")),
            // What a plugin runs is compiled for itself, with all that it uses. Nothing runs the plugin in the build of all tests.
            dependencies: choice == "release" ? [] : ["check-imports"], path: "Sources/CheckImportsPlugin"),
    ]

// The application object of UIKit, examples, and what drives the library's view of a mount's state in the mount tests.
let stateLibraries: [Target] = [
    .target(name: "OSLogCompat", dependencies: ["HostSystem"], swiftSettings: strict),
    .target(
        name: "UIKitCompat", dependencies: ["FileProtection", "HostSystem", "PlainFoundation"], swiftSettings: strict)
]
let statePrograms: [Target] = [
    .executableTarget(
        name: "downloader", dependencies: ["FileProtection"], path: "Sources/Examples/Downloader", swiftSettings: strict
    ),
    .executableTarget(
        name: "document-editor", dependencies: ["UIKitCompat"], path: "Sources/Examples/DocumentEditor",
        swiftSettings: strict),
    .executableTarget(
        name: "fitness-log", dependencies: ["FileProtection"], path: "Sources/Examples/FitnessLog",
        swiftSettings: strict),
    .executableTarget(
        name: "porting-kills", dependencies: ["FileProtection"], path: "Tests/Porting/Kills", swiftSettings: strict),
    .executableTarget(
        name: "porting-pitfalls", dependencies: ["FileProtection"], path: "Tests/Porting/Pitfalls",
        swiftSettings: strict
    ),
    .executableTarget(
        name: "porting-state", dependencies: ["UIKitCompat"], path: "Tests/Porting/State", swiftSettings: strict),
]

let databasePrograms: [Target] =
    database.isEmpty
    ? []
    : [
        .executableTarget(
            name: "database", dependencies: ["FileProtection", "SQLite3"], path: "Sources/Examples/Database",
            swiftSettings: strict)
    ]

// The documents' examples, run against real mounts by Tests/Mount: compiled as any program is, so that nothing but the import
// has to be changed.
let plain: [SwiftSetting] = [.treatAllWarnings(as: .error)]
let porting: [Target] = [
    .executableTarget(
        name: "porting-examples", dependencies: ["UIKitCompat"] + database.map { .byName(name: $0.name) },
        path: "Tests/Porting/Examples",
        exclude: database.isEmpty ? ["Example12Database.swift"] : [],
        swiftSettings: plain + (database.isEmpty ? [] : [.define("SQLITE")])),
    // Programs in the manner of libraries for caches, logs, downloads and archives.
    .executableTarget(
        name: "porting-libraries", dependencies: ["FileProtection"], path: "Tests/Porting/Libraries",
        swiftSettings: plain),
    // Times of writes, for mount-scripts/measure/write-costs.
    .executableTarget(
        name: "porting-write-costs", dependencies: ["FileProtection", "PlainFoundation"],
        path: "Tests/Porting/WriteCosts", swiftSettings: plain),
    // The package to copy, in which these are built as they are here.
    .target(
        name: "Notes", dependencies: ["FileProtection"], path: "docs/program/template/Sources/Notes",
        swiftSettings: plain),
    .executableTarget(
        name: "notes-app", dependencies: ["Notes"], path: "docs/program/template/Sources/notes-app",
        swiftSettings: plain),
    // What Foundation on Linux does by itself.
    .executableTarget(name: "porting-linux", path: "Tests/Porting/Linux", swiftSettings: plain),
    // Suites of applications, most of which use XCTest.
    .target(name: "XCTestCompat", swiftSettings: strict),
    .executableTarget(
        name: "porting-suite", dependencies: ["FileProtection", "XCTestCompat"], path: "Tests/Porting/Suite",
        swiftSettings: plain),
    .executableTarget(
        name: "porting-logging", dependencies: ["FileProtection", "OSLogCompat"], path: "Tests/Porting/Logging",
        swiftSettings: plain),
    .executableTarget(
        name: "porting-application", dependencies: ["UIKitCompat"], path: "Tests/Porting/Application",
        swiftSettings: plain),
]

// The keychain's names over SecretStore. `porting-keychain` and `porting-wrapper` are what the mount tests run.
let secrets: [Target] = [
    .target(
        name: "Secrets", dependencies: ["SecretStore", "SodiumKit", "VolumeFormat", "HostSystem"],
        swiftSettings: strict),
    .executableTarget(
        name: "porting-keychain", dependencies: ["Secrets", "FileProtection"], path: "Tests/Porting/Keychain",
        swiftSettings: []),
    .executableTarget(
        name: "porting-wrapper", dependencies: ["Secrets", "FileProtection"], path: "Tests/Porting/Wrapper",
        swiftSettings: plain),
    // In the language of the applications' code.
    .executableTarget(
        name: "porting-spellings", dependencies: ["Secrets", "FileProtection"], path: "Tests/Porting/Spellings",
        swiftSettings: plain + [.swiftLanguageMode(.v5)]),
]

let everything =
    libraries + cipherLibraries + database + testSupport + modules.flatMap { $0 } + control
    + programModules.flatMap { $0 } + formatVectors + command + programLibraries.flatMap { $0 } + stateLibraries
    + statePrograms + databasePrograms + secrets + porting + importCheck + fuzzing

// A trial is what mount-scripts/quickstart builds, in less than half the time: of the modules that are compiled alone or last, none is
// optimised. The program says that it is one (`protectfs version`).
let optimizedInTrial: Set = [
    "CLibrary", "HostSystem", "VolumeFormat", "SodiumKit", "Keybag", "BackingStore", "FuseBridge",
]
if Context.environment["PROTECTFS_TRIAL"] != nil {
    for target in everything where target.swiftSettings != nil && !optimizedInTrial.contains(target.name) {
        target.swiftSettings? += [.unsafeFlags(["-Onone"]), .define("TRIAL")]
    }
}

if !fuzzing.isEmpty {
    for target in everything where target.swiftSettings != nil && target.type != .test {
        target.swiftSettings? += [.unsafeFlags(["-sanitize=fuzzer"])]
    }
}

// What these targets need, and they themselves.
func closure(of targets: [Target], in everything: [Target]) -> Set<String> {
    var needed: Set<String> = []
    var next = targets
    while let target = next.popLast() {
        needed.insert(target.name)
        for case .byNameItem(let name, _) in target.dependencies {
            next += everything.filter { $0.name == name && !needed.contains(name) }
        }
    }
    return needed
}

// Tests and examples take longer to optimise than they run. A power cut in memory does not.
let optimizedInTests = closure(
    of: everything.filter { ["protectfs", "MemoryStore"].contains($0.name) }, in: everything)
if choice == "release" {
    for target in everything where target.swiftSettings != nil && !optimizedInTests.contains(target.name) {
        target.swiftSettings? += [.unsafeFlags(["-Onone"])]
    }
}

// The targets of tests, and what they need.
func tests(in everything: [Target]) -> [Target] {
    let chosen = choice.flatMap { sanitized[$0] }?.map { $0 + "Tests" }
    let program = choice == "quick" ? "protectfs" : "fuzz"
    let needed = closure(
        of: everything.filter { $0.name == program || $0.type == .test && chosen?.contains($0.name) != false },
        in: everything)
    return everything.filter { needed.contains($0.name) }
}
let isWhole = choice == nil || choice == "release"
let package = Package(
    name: "protectfs",
    products: isWhole
        ? [
            .executable(name: "protectfs", targets: ["protectfs"]),
            .library(name: "FileProtection", targets: ["FileProtection"]),
            .library(name: "UIKitCompat", targets: ["UIKitCompat"]),
            .library(name: "Secrets", targets: ["Secrets"]),
            .library(name: "OSLogCompat", targets: ["OSLogCompat"]),
            .library(name: "XCTestCompat", targets: ["XCTestCompat"]),
            .library(name: "VolumeControl", targets: ["VolumeControl"]),
            .plugin(name: "CheckImports", targets: ["CheckImports"]),
        ] : [],
    targets: isWhole ? everything : tests(in: everything),
    swiftLanguageModes: [.v6])
