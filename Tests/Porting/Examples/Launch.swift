// An application that is started by the name of its delegate's class.

import UIKitCompat

/// A delegate that is made by the name of its class.
final class NamedDelegate: UIResponder, UIApplicationDelegate {
    func applicationDidFinishLaunching(_ application: UIApplication) {
        print("launched \(application.delegate === self)")
        RunLoop.main.add(
            Timer(timeInterval: 0.05, repeats: false) { _ in print("timer") }, forMode: .default)
    }

    func applicationWillTerminate(_ application: UIApplication) { print("terminated") }
}

/// Starts an application as a file main.swift does.
@MainActor func launchByName(in directory: URL, _ words: [String]) throws {
    try UIApplication.shared.useProtectedData(at: directory)
    UIApplicationMain(CommandLine.argc, CommandLine.unsafeArgv, nil, NSStringFromClass(NamedDelegate.self))
}
