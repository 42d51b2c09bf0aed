// swift-tools-version: 6.3
// Copy this directory to begin a program whose files have protection classes. Replace the URL by that of your copy of protectfs.
import PackageDescription

// On a Mac or an iPhone, Foundation has the same names.
let protection: [Target.Dependency] = [
    .product(name: "FileProtection", package: "protectfs", condition: .when(platforms: [.linux]))
]

let package = Package(
    name: "notes-app",
    platforms: [.macOS(.v13), .iOS(.v16)],
    dependencies: [.package(url: "https://example.org/protectfs.git", from: "0.3.0")],
    targets: [
        .target(name: "Notes", dependencies: protection),
        .executableTarget(name: "notes-app", dependencies: ["Notes"]),
        .testTarget(name: "NotesTests", dependencies: ["Notes"] + protection),
    ])
