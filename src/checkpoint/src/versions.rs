//! Versions of checkpoint formats.

use tfcore_base::{Result, invalid};
use tfcore_proto::VersionDef;

/// The version that both formats have today.
pub(crate) const VERSION: i32 = 1;

/// # Errors
/// `InvalidArgument` if a checkpoint says that this version cannot read it.
pub(crate) fn check(versions: Option<&VersionDef>) -> Result<()> {
    let Some(versions) = versions else { return Ok(()) };
    if versions.producer < 0 {
        return Err(invalid!(
            "Checkpoint producer version {} below min producer 0 supported by TensorFlow 2.21.0.  Please \
             regenerate your checkpoint.",
            versions.producer
        ));
    }
    if versions.min_consumer > VERSION {
        return Err(invalid!(
            "Checkpoint min consumer version {} above current version {VERSION} for TensorFlow 2.21.0.  \
             Please upgrade TensorFlow.",
            versions.min_consumer
        ));
    }
    if versions.bad_consumers.contains(&VERSION) {
        return Err(invalid!(
            "Checkpoint disallows consumer version {VERSION}.  Please upgrade TensorFlow: this version is \
             likely buggy."
        ));
    }
    Ok(())
}
