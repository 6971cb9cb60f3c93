//! Rotation: a full `data.json` is renamed to `data-2026-03-01T10-20-30.123-size.json`, and the oldest backups are
//! removed.
//!
//! The time has a fixed width, so that the alphabetical order of names is their order in time.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use component::ComponentId;
use tz::{DateTime, TimeZone};

use super::config::RotationConfig;

const MIB: u64 = 1024 * 1024;
const DAY: Duration = Duration::from_secs(24 * 60 * 60);
/// The reason of a rotation, at the end of a name; files are only rotated by size.
const REASON: &str = "-size";

/// When a file is rotated, and which backups are kept.
#[derive(Clone, Debug)]
pub(super) struct Rotation {
    id: ComponentId,
    pub(super) bytes_max: u64,
    age_max: Option<Duration>,
    backups_max: Option<usize>,
    zone: TimeZone,
}

impl Rotation {
    pub(super) fn new(id: &ComponentId, config: &RotationConfig) -> Self {
        let mebibytes = if config.max_megabytes == 0 { 100 } else { config.max_megabytes };
        Rotation {
            id: id.clone(),
            bytes_max: u64::from(mebibytes) * MIB,
            age_max: (config.max_days > 0).then(|| DAY * config.max_days),
            backups_max: (config.max_backups > 0).then_some(config.max_backups as usize),
            zone: if config.localtime { local_zone(id) } else { TimeZone::utc() },
        }
    }

    /// Renames a full file with the current time, or the first later millisecond that is free.
    pub(super) fn rotate(&self, path: &Path) -> io::Result<()> {
        let name = Name::of(path);
        let mut now = SystemTime::now();
        loop {
            let backup = path.with_file_name(name.at(&self.time(now)));
            if !backup.try_exists()? {
                return fs::rename(path, backup);
            }
            now += Duration::from_millis(1);
        }
    }

    /// Removes backups that are too old or too many.
    pub(super) fn prune(&self, path: &Path) {
        let removed = self.pruned(path).and_then(|files| files.iter().try_for_each(fs::remove_file));
        if let Err(error) = removed {
            tracing::warn!(exporter = %self.id, %error, path = %path.display(), "cannot remove old files");
        }
    }

    fn pruned(&self, path: &Path) -> io::Result<Vec<PathBuf>> {
        let name = Name::of(path);
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let mut full: Vec<(String, PathBuf)> = Vec::new();
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            let time = entry.file_name().to_str().and_then(|text| name.time_in(text)).map(str::to_owned);
            full.extend(time.map(|time| (time, entry.path())));
        }
        full.sort();
        full.reverse();
        let oldest = self.age_max.map(|age| self.time(SystemTime::now() - age));
        let is_old = |time: &String| oldest.as_ref().is_some_and(|oldest| time < oldest);
        let most = self.backups_max.unwrap_or(usize::MAX);
        let removed =
            full.into_iter().enumerate().filter(|(index, (time, _))| *index >= most || is_old(time));
        Ok(removed.map(|(_, (_, path))| path).collect())
    }

    /// Formats a time for a file name, with milliseconds.
    fn time(&self, at: SystemTime) -> String {
        let since = at.duration_since(UNIX_EPOCH).unwrap_or_default();
        let seconds = i64::try_from(since.as_secs()).unwrap_or(i64::MAX);
        let zoned = DateTime::from_timespec(seconds, since.subsec_nanos(), self.zone.as_ref());
        let Ok(t) = zoned else { return "1970-01-01T00-00-00.000".to_owned() };
        let (hour, minute, second) = (t.hour(), t.minute(), t.second());
        let (year, month, day, millis) = (t.year(), t.month(), t.month_day(), t.nanoseconds() / 1_000_000);
        format!("{year:04}-{month:02}-{day:02}T{hour:02}-{minute:02}-{second:02}.{millis:03}")
    }
}

/// Returns the time zone of the machine, from the variable `TZ` or `/etc/localtime`.
fn local_zone(id: &ComponentId) -> TimeZone {
    let zone = match std::env::var("TZ") {
        Ok(name) if !name.is_empty() => TimeZone::from_posix_tz(&name),
        _ => TimeZone::local(),
    };
    zone.unwrap_or_else(|error| {
        tracing::warn!(exporter = %id, %error, "no time zone found on this machine, using UTC in backup names");
        TimeZone::utc()
    })
}

/// The parts of a file name before and after the time.
struct Name {
    stem: String,
    extension: String,
}

impl Name {
    fn of(path: &Path) -> Self {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let (stem, extension) = match name.rfind('.') {
            Some(dot) => name.split_at(dot),
            None => (&*name, ""),
        };
        Name { stem: stem.to_owned(), extension: extension.to_owned() }
    }

    fn at(&self, time: &str) -> String {
        format!("{}-{time}{REASON}{}", self.stem, self.extension)
    }

    /// Returns the time in the name of a backup, with a reason or, as by older Collectors, without.
    fn time_in<'a>(&self, name: &'a str) -> Option<&'a str> {
        let time = name.strip_prefix(&self.stem)?.strip_prefix('-')?.strip_suffix(&self.extension)?;
        let time = time.strip_suffix(REASON).unwrap_or(time);
        let shape = |c: char| if c.is_ascii_digit() { '0' } else { c };
        let is_time = time.chars().map(shape).eq("0000-00-00T00-00-00.000".chars());
        is_time.then_some(time)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rotation(config: &RotationConfig) -> Rotation {
        Rotation::new(&ComponentId::parse("file").unwrap(), config)
    }

    #[test]
    fn times_are_in_the_configured_zone() {
        let at = UNIX_EPOCH + Duration::from_millis(1_772_360_430_123);
        let mut utc = rotation(&RotationConfig::default());
        assert_eq!(utc.time(at), "2026-03-01T10-20-30.123");
        utc.zone = TimeZone::from_posix_tz("HST10").unwrap();
        assert_eq!(utc.time(at), "2026-03-01T00-20-30.123");
    }

    #[test]
    fn backups_are_recognised_by_their_names() {
        let name = Name::of(Path::new("/d/data.otlp.json"));
        let time = "2026-03-01T10-20-30.123";
        assert_eq!(name.at(time), format!("data.otlp-{time}-size.json"));
        assert_eq!(name.time_in(&name.at(time)), Some(time));
        assert_eq!(name.time_in(&format!("data.otlp-{time}.json")), Some(time));
        for other in ["data.otlp.json", "data.otlp-x.json", "data-2026-03-01T10-20-30.123.json"] {
            assert_eq!(name.time_in(other), None, "{other}");
        }
    }

    #[test]
    fn old_and_surplus_backups_are_removed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("data");
        let recent = rotation(&RotationConfig::default()).time(SystemTime::now());
        let names = |kept: &[&str]| kept.iter().map(|t| format!("data-{t}-size")).collect::<Vec<_>>();
        let all = ["2020-01-01T00-00-00.000", "2020-01-02T00-00-00.000", &recent];
        for (max_days, max_backups, left) in
            [(0, 0, &all[..]), (0, 2, &all[1..]), (7, 0, &all[2..]), (7, 1, &all[2..])]
        {
            names(&all).iter().for_each(|name| fs::write(folder.path().join(name), "x").unwrap());
            fs::write(&path, "x").unwrap();
            rotation(&RotationConfig { max_days, max_backups, ..RotationConfig::default() }).prune(&path);
            let mut found: Vec<String> = fs::read_dir(folder.path())
                .unwrap()
                .map(|entry| entry.unwrap().file_name().into_string().unwrap())
                .filter(|name| name != "data")
                .collect();
            found.sort();
            assert_eq!(found, names(left), "{max_days} {max_backups}");
        }
    }
}
