// Follows Package.swift in the cross build's manifest: no Foundation and no XCTest, which Debian has in binary form only, so the
// unit tests are a program. `Runner` starts them.

let testedModules = [
    "HostSystem", "VolumeFormat", "SodiumKit", "PassphraseStrength", "Keybag", "BackingStore", "Control", "SecretStore",
    "FormatVectors",
]
let whole = libraries + cipherLibraries + testSupport + modules.flatMap { $0 } + formatVectors + command
let crossedTests = whole.filter { target in testedModules.contains { target.name == $0 + "Tests" } }
package.targets =
    whole.filter { !$0.isTest }
    + crossedTests.map {
        .target(
            name: $0.name, dependencies: $0.dependencies, path: "Tests/" + $0.name, swiftSettings: $0.swiftSettings)
    } + [
        .executableTarget(
            name: "unit-tests", dependencies: crossedTests.map { .byName(name: $0.name) }, path: "Tests/Aarch64/Runner")
    ]
package.products = []
