// Tests the options of `-o`: our own, the kernel's, and unknown ones.

import FileContents
import HostSystem
import ProtectedVolume
import Testing
import VolumeFormat

@testable import FuseFrontend

struct MountOptionsTests {
    @Test func ours() throws {
        let options = try MountOptions.parse(["ro,allow_other", "default_class=A,shared,strict,recover,idle=1h30m"])
        let volume = options.volume
        #expect(volume.isReadOnly && options.allowsOther && volume.isShared && volume.isStrict && volume.recovers)
        #expect(volume.keepsFamilyClass)
        #expect(try !MountOptions.parse(["no_family_class"]).volume.keepsFamilyClass)
        #expect((volume.defaultClass == .complete) as Bool)
        #expect((options.idleSeconds == 5400) as Bool)
    }

    @Test func laterWordsWin() throws {
        #expect(try (MountOptions.parse(["ro", "rw"]).volume.isReadOnly == false) as Bool)
        #expect(try (MountOptions.parse(["idle=5,idle=0"]).idleSeconds == nil) as Bool)
        #expect(try MountOptions.parse([]).inactiveSeconds == 600)
        #expect(try MountOptions.parse(["inactive=2h,inactive=0"]).inactiveSeconds == 0)
    }

    @Test func ofMountFuse() throws {
        let options = try MountOptions.parse([
            "noatime,nodev,nosuid,noexec,uid=7,gid=8,umask=077,defaults,x-systemd.idle"
        ])
        #expect((options.kernelOptions == ["noatime", "nodev", "nosuid", "noexec"]) as Bool)
        #expect((options.user == 7 && options.group == 8 && options.mask == 0o077) as Bool)
    }

    @Test(arguments: ["frob", "default_class", "frob=1", "ROO"])
    func unknown(_ word: String) {
        #expect(throws: MountOptionError.self) { try MountOptions.parse([word]) }
    }

    @Test(arguments: [
        "idle=", "idle=x", "idle=5x", "idle=-1", "idle=99999999999999999999", "idle=1h5", "uid=-1", "uid=4294967295",
        "umask=8", "umask=1000", "default_class=E", "default_class=NSFileProtectionCompleteWhenUserAsleep",
        "inactive=", "inactive=soon", "inactive=-1",
    ])
    func badValues(_ word: String) {
        #expect(throws: MountOptionError.self) { try MountOptions.parse([word]) }
    }

    @Test func durations() {
        #expect((DurationText.seconds("90") == 90) as Bool)
        #expect((DurationText.seconds("90s") == 90) as Bool)
        #expect((DurationText.seconds("10m") == 600) as Bool)
        #expect((DurationText.seconds("1d") == 86400) as Bool)
        #expect((DurationText.seconds("") == nil) as Bool)
    }

    @Test func wordsForLibfuse() throws {
        let words = try MountOptions.parse(["ro,noatime"]).sessionOptions
        #expect(words == ["subtype=protectfs", "default_permissions", "ro", "noatime"])
    }
}
