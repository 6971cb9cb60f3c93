//! The output: lines of the log on stderr in the layout of the Collector's console encoder, or plain text to
//! files and standard streams. Sampling is per second and signal.

use std::fmt::Write as _;
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use component::ComponentId;
use pdata::{PerSignal, Signal};

use super::DebugConfig;

/// The output of one exporter.
pub(super) struct Output {
    /// The exporter's id for lines of the log; `None` for plain text.
    log_of: Option<ComponentId>,
    sampling: (u64, u64),
    inner: Mutex<Inner>,
}

struct Inner {
    writers: Vec<Box<dyn Write + Send>>,
    seconds: PerSignal<Second>,
}

/// The number of batches of a signal in the current second.
#[derive(Clone, Copy)]
struct Second {
    begin: Instant,
    batches: u64,
}

impl Output {
    pub(super) fn open(id: &ComponentId, config: &DebugConfig) -> io::Result<Self> {
        if config.use_internal_logger {
            return Ok(Self::over(vec![Box::new(io::stderr())], Some(id.clone()), config));
        }
        let default = vec!["stdout".to_owned()];
        let paths = config.output_paths.as_ref().unwrap_or(&default);
        let writers: io::Result<Vec<_>> = paths.iter().map(|path| open(path)).collect();
        Ok(Self::over(writers?, None, config))
    }

    pub(super) fn over(
        writers: Vec<Box<dyn Write + Send>>,
        log_of: Option<ComponentId>,
        config: &DebugConfig,
    ) -> Self {
        let seconds = PerSignal::from_fn(|_| Second { begin: Instant::now(), batches: 0 });
        let sampling = (config.sampling_initial, config.sampling_thereafter);
        Output { log_of, sampling, inner: Mutex::new(Inner { writers, seconds }) }
    }

    /// Writes the summary line and `text` below it, unless the batch is sampled out.
    pub(super) fn write(
        &self,
        signal: Signal,
        title: &str,
        counts: &[(&str, usize)],
        text: Option<&str>,
    ) -> io::Result<()> {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        if !inner.seconds[signal].takes(self.sampling, Instant::now()) {
            return Ok(());
        }
        let mut lines = String::new();
        self.line(&mut lines, signal, title, counts);
        if let Some(text) = text {
            self.line(&mut lines, signal, text, &[]);
        }
        inner.writers.iter_mut().try_for_each(|writer| {
            writer.write_all(lines.as_bytes())?;
            writer.flush()
        })
    }

    fn line(&self, out: &mut String, signal: Signal, message: &str, counts: &[(&str, usize)]) {
        let mut fields: Vec<String> = counts.iter().map(|(name, n)| format!("\"{name}\": {n}")).collect();
        if let Some(id) = &self.log_of {
            let _ = write!(out, "{}\tinfo\t", go_format::iso8601_millis(SystemTime::now()));
            let kind = r#""otelcol.component.kind": "exporter""#;
            let name = signal.name();
            let whose = format!(r#""otelcol.component.id": "{id}", {kind}, "otelcol.signal": "{name}""#);
            fields.insert(0, whose);
        }
        out.push_str(message);
        if !fields.is_empty() {
            let _ = write!(out, "\t{{{}}}", fields.join(", "));
        }
        out.push('\n');
    }
}

fn open(path: &str) -> io::Result<Box<dyn Write + Send>> {
    Ok(match path {
        "stdout" => Box::new(io::stdout()),
        "stderr" => Box::new(io::stderr()),
        path => {
            let file = OpenOptions::new().append(true).create(true).open(path);
            let named = |e: io::Error| io::Error::new(e.kind(), format!("output_paths {path:?}: {e}"));
            Box::new(file.map_err(named)?)
        }
    })
}

impl Second {
    /// Returns true for the first `initial` batches of a second and one in `thereafter` of the others.
    fn takes(&mut self, (initial, thereafter): (u64, u64), now: Instant) -> bool {
        if now.duration_since(self.begin) >= Duration::from_secs(1) {
            *self = Second { begin: now, batches: 0 };
        }
        self.batches += 1;
        match self.batches.checked_sub(initial) {
            None | Some(0) => true,
            Some(beyond) => thereafter > 0 && beyond % thereafter == 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sampling_prints_the_first_lines_of_a_second() {
        for (sampling, want) in
            [((2, 1), "yyyyyyyy"), ((2, 3), "yynnynny"), ((3, 0), "yyynnnnn"), ((0, 2), "nynynyny")]
        {
            let begin = Instant::now();
            let mut second = Second { begin, batches: 0 };
            let taken: String =
                (0..8).map(|_| if second.takes(sampling, begin) { 'y' } else { 'n' }).collect();
            assert_eq!(taken, want, "{sampling:?}");
            assert_eq!(second.takes(sampling, begin + Duration::from_secs(1)), want.starts_with('y'));
        }
    }
}
