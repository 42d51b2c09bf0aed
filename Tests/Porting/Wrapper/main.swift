// Runs the wrappers' own tests in one state of the mount: MOUNT unlocked|locked|before|after. One line for each check.

import FileProtection
import Secrets

func check(_ name: String, _ isRight: Bool, _ seen: Any? = nil) {
    print(isRight ? "ok \(name)" : "FAILED \(name): \(seen.map { "\($0)" } ?? "")")
}

/// The code of the error that `body` throws; 0 if it throws none.
func code(_ body: () throws -> Void) -> Int {
    do { try body() } catch { return (error as NSError).code }
    return 0
}

func failure(_ body: () throws(LockerError) -> Void) -> LockerError? {
    do throws(LockerError) { try body() } catch { return error }
    return nil
}

let closed = Int(errSecInteractionNotAllowed)

guard CommandLine.arguments.count == 3, SecretsMount.use(CommandLine.arguments[1]) else {
    print("FAILED no mount")
    exit(1)
}
switch CommandLine.arguments[2] {
case "unlocked":
    testPasswordBox()
    testWeb()
    testSettings()
    testLocker()
    testMigration()
    testSmallWrappers()
    testPolicies()
    testRandom()
    testSpellings()
    fill()
case "locked": testClosed(.whenUnlocked, open: [.afterFirstUnlock, .afterFirstUnlockHere, .always, .alwaysHere])
case "before": testClosed(.afterFirstUnlock, open: [.always, .alwaysHere])
case "after": testAfter()
default: print("FAILED unknown state")
}
