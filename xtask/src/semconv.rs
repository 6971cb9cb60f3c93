//! Generates `semconv/src/generated.rs` and the pages of `semconv/docs` from `semconv/registry/*.yaml`.
//!
//! The output is a pure function of the registry; a test compares it with the committed files. Weaver's own check of syntax and
//! policies runs if the variable `WEAVER` names its binary.

mod docs;
mod model;
mod rust;

use std::fs;
use std::path::PathBuf;

use anyhow::Context;

use model::Registry;

/// Writes the generated files.
pub(crate) fn run(_arguments: &[String]) -> anyhow::Result<()> {
    for (path, text) in outputs()? {
        fs::write(&path, text).with_context(|| path.display().to_string())?;
    }
    Ok(())
}

/// Returns the path and content of every generated file.
fn outputs() -> anyhow::Result<Vec<(PathBuf, String)>> {
    let registry = registry()?;
    let package = crate::root().join("semconv");
    Ok(vec![
        (package.join("src/generated.rs"), rust::generate(&registry)),
        (package.join("docs/signals.md"), docs::signals(&registry)),
        (package.join("docs/otelcol.md"), docs::own_metrics(&registry)),
    ])
}

/// Reads all files of the registry except the manifest, which only Weaver needs.
fn registry() -> anyhow::Result<Registry> {
    let folder = crate::root().join("semconv/registry");
    let mut files: Vec<PathBuf> =
        fs::read_dir(&folder)?.map(|e| Ok(e?.path())).collect::<anyhow::Result<_>>()?;
    files.retain(|f| f.file_name().is_some_and(|n| n != "manifest.yaml"));
    files.sort();
    let texts = files.iter().map(|f| Ok((f.display().to_string(), fs::read_to_string(f)?)));
    Registry::read(&texts.collect::<anyhow::Result<Vec<_>>>()?)
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn generated_files_are_up_to_date() {
        for (path, want) in outputs().unwrap() {
            let have = fs::read_to_string(&path).unwrap_or_default();
            assert!(have == want, "{} is stale: run `cargo run -p xtask -- semconv`", path.display());
        }
    }

    #[test]
    fn weaver_accepts_the_registry() {
        let Some(weaver) = std::env::var_os("WEAVER") else {
            println!("skipped: the variable WEAVER does not name a weaver binary");
            return;
        };
        let folder = crate::root().join("semconv/registry");
        let status = Command::new(weaver).args(["registry", "check", "-r"]).arg(folder).status().unwrap();
        assert!(status.success(), "weaver registry check: {status}");
    }

    fn problem(yaml: &str) -> String {
        format!("{:#}", Registry::read(&[("a.yaml".to_owned(), yaml.to_owned())]).unwrap_err())
    }

    #[test]
    fn registry_errors_name_the_entry() {
        let metric = "groups:\n- {id: metric.a.b, type: metric, brief: B., stability: development, instrument: counter, unit: s, metric_name: ";
        for (yaml, want) in [
            ("groups:\n- {id: x, type: metric, brief: B.}".to_owned(), "x: a metric needs metric_name"),
            (format!("{metric}a.c}}"), "metric.a.b: expected the id metric.a.c"),
            (
                format!("{metric}a.b, attributes: [{{ref: gpu.nothing}}]}}"),
                "gpu.nothing: not defined here, nor by OpenTelemetry",
            ),
        ] {
            let found = problem(&yaml);
            assert!(found.contains(want), "{found}");
        }
        assert!(problem("groups: [{id: x, typ: metric}]").contains("a.yaml"));
    }
}
