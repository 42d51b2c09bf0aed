// `protectfs agent`.

import CommandSupport
import HostSystem
import SessionServices
import VolumeAccess

extension Command {
    static let agent = Command(
        "agent", .locking, [], "Locks your mounts when the session is locked, before sleep, and at logout.",
        details: """
            The agent runs in the foreground until a signal ends it. The user unit protectfs-agent starts it:
            systemctl --user enable --now protectfs-agent.

            It locks your mounts when logind locks one of your sessions, when the screen saver of the desktop begins, before the
            machine sleeps, and when your last session or the agent ends. The sleep waits until they are locked. If open files were
            cut off, the desktop shows a notification. It works while there is no desktop or no logind, and connects when they come.

            The keys agent.lock, agent.idle and agent.unlock of the configuration files choose the events, for all mounts or for
            one; see protectfs config. The files are read for each event. While they have a mistake, what they said before holds, and at
            the start of the agent all events lock all mounts.

            With --mount it mounts the volumes that were mounted when the last session ended or the machine stopped, and ends. It
            does not unlock them. What protectfs unmount or a unit has unmounted is left alone. The unit protectfs-mounts does
            this at each login, before the agent starts.
            """,
        options: [
            Option("mount", help: "mount what was mounted before the last restart, without unlocking it, and end")
        ],
        examples: [.init("systemctl --user enable --now protectfs-agent", "Start the agent now and at each login.")],
        usesKeys: false,
        run: { (arguments) throws(CommandFailure) in
            if arguments.has("mount") { return mountAgain() }
            var policy = Policy(settings: [])
            var mistake: String?
            // An agent that does not run locks nothing. Without settings it locks everything.
            do throws(CommandFailure) { policy = try Policy.read() } catch { mistake = error.message }
            do throws(SystemError) { return try Agent(policy, mistake: mistake).run() } catch {
                throw ErrorMessages.system(error)
            }
        })

    /// Runs `protectfs mount` for each volume. What it says goes to the log of the unit.
    private static func mountAgain() -> ExitCode {
        var code = ExitCode.success
        for known in KnownMount.all() {
            guard let options = known.options else { continue }
            var words = ["protectfs", "mount", "--no-unlock"].map { Array($0.utf8) }
            if !options.isEmpty { words += [Array("-o".utf8), Array(options.utf8)] }
            words += [Array("--".utf8), known.volume.bytes, known.mountPoint.bytes]
            let ending = try? ChildProcess.start(HostPath("/proc/self/exe"), words, hasTerminal: false).wait()
            if ending != .exited(0) { code = .failure }
        }
        return code
    }
}
