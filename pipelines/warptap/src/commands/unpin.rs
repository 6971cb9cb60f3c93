//! `warptap unpin`: removes probes that a collector left attached when it ended.

use std::io::Write;
use std::path::Path;

use anyhow::anyhow;
use capture::Unpinned;

use crate::cli::UnpinArgs;
use crate::commands::terminal::count;

/// Removes the pins and prints how many there were. Fails if a collector owns them.
pub fn run(args: &UnpinArgs, out: &mut impl Write) -> anyhow::Result<()> {
    if args.watch {
        let mut failed = Ok(());
        let watched = capture::watch(&args.path, args.after, |removed| {
            failed = print(&args.path, removed, out);
            failed.is_ok()
        });
        return failed.and(watched.map_err(|e| anyhow!(e)));
    }
    let removed = capture::unpin(&args.path).map_err(|e| anyhow!("nothing was removed: {e}"))?;
    print(&args.path, removed, out)
}

fn print(path: &Path, removed: Unpinned, out: &mut impl Write) -> anyhow::Result<()> {
    let path = path.display();
    match removed {
        Unpinned { files: 0, maps: 0 } => writeln!(out, "{path}: nothing was pinned")?,
        Unpinned { files, maps } => {
            writeln!(
                out,
                "{path}: removed the probes of {} and {}",
                count(files, "library file"),
                count(maps, "map")
            )?;
        }
    }
    Ok(out.flush()?)
}

/// Runs as the guard of a collector.
pub fn guard() -> anyhow::Result<()> {
    capture::guard().map(drop).map_err(|e| anyhow!("the collector starts this command: {e}"))
}
