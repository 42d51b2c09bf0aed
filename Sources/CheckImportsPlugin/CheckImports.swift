// `swift package check-imports` runs the program check-imports with the source files of the package's targets.

import Foundation
import PackagePlugin

@main struct CheckImports: CommandPlugin {
    func performCommand(context: PluginContext, arguments: [String]) async throws {
        var extractor = ArgumentExtractor(arguments)
        let names = extractor.extractOption(named: "target")
        let tests = extractor.extractFlag(named: "tests") > 0
        if extractor.extractFlag(named: "help") > 0 {
            return print(
                """
                Usage: swift package check-imports [--target NAME]… [--tests]

                Lists the source files that import Foundation instead of FileProtection. Checks all targets except tests,
                the named targets, or with --tests all targets. The exit code is 1 if a file is listed. See docs/program/porting.md.
                """)
        }
        guard extractor.remainingArguments.isEmpty else {
            fail("unknown argument \(extractor.remainingArguments[0]); see swift package check-imports --help")
        }
        let known = context.package.targets.compactMap { $0 as? any SourceModuleTarget }
        if let unknown = names.first(where: { name in !known.contains { $0.name == name } }) {
            fail("no target \(unknown) with source files")
        }
        let chosen = known.filter { names.isEmpty ? tests || $0.kind != .test : names.contains($0.name) }
        let root = context.package.directoryURL
        let files = chosen.flatMap { $0.sourceFiles(withSuffix: ".swift").map { relative($0.url, to: root) } }.sorted()

        let process = Process()
        process.executableURL = try context.tool(named: "check-imports").url
        process.arguments = ["--stdin"]
        process.currentDirectoryURL = root
        let input = Pipe()
        process.standardInput = input
        try process.run()
        try input.fileHandleForWriting.write(contentsOf: Data(files.map { $0 + "\n" }.joined().utf8))
        try input.fileHandleForWriting.close()
        process.waitUntilExit()
        if process.terminationStatus != 0 { exit(process.terminationStatus) }
    }

    private func relative(_ file: URL, to root: URL) -> String {
        let start = root.path.hasSuffix("/") ? root.path : root.path + "/"
        return file.path.hasPrefix(start) ? String(file.path.dropFirst(start.count)) : file.path
    }

    private func fail(_ text: String) -> Never {
        Diagnostics.error(text)
        exit(2)
    }
}
