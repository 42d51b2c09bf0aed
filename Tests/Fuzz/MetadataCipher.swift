// The names' cipher with fixed keys, for the targets that parse what it made.

import Keybag
import SodiumKit
import VolumeFormat

@testable import ProtectedVolume

/// Objects that the encodings are bound to.
let directory = ObjectID(InlineArray(repeating: 0x11))
let otherDirectory = ObjectID(InlineArray(repeating: 0x22))

let cipher: NameCipher = {
    do {
        let key = try SecretKey(copying: pattern(32).span)
        return NameCipher(keys: try MetadataKeys(metadataKey: key, volumeID: VolumeID(InlineArray(repeating: 7))))
    } catch {
        fatalError("no secret memory: \(error)")
    }
}()
