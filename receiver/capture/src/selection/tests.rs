use event::ProcessInfo;
use proptest::prelude::*;

use super::*;

const PROPERTIES: [Property; 10] = [
    Property::Cgroup,
    Property::CommandLine,
    Property::ContainerId,
    Property::ExecutableName,
    Property::ExecutablePath,
    Property::Namespace,
    Property::PodName,
    Property::PodUid,
    Property::ServiceName,
    Property::User,
];

fn texts(all: &[&str]) -> Vec<String> {
    all.iter().map(|text| (*text).to_owned()).collect()
}

fn pair(key: &str, value: &str) -> (String, String) {
    (key.to_owned(), value.to_owned())
}

/// Returns a process that has a value of every property.
fn server() -> Subject {
    let info = ProcessInfo {
        executable: "python3.12".to_owned(),
        executable_path: "/opt/venv/bin/python3.12".to_owned(),
        command: texts(&["python3", "-m", "vllm", "serve"]),
        container_id: "0123".to_owned(),
        attributes: vec![
            pair("k8s.namespace.name", "inference"),
            pair("k8s.pod.name", "vllm-0"),
            pair("k8s.pod.uid", "11111111-2222"),
            pair("service.name", "chat"),
        ],
        ..ProcessInfo::default()
    };
    Subject { info, users: texts(&["1000", "alice"]), cgroups: texts(&["/", "/kubepods/pod1"]) }
}

fn strict(property: Property, of: &[&str]) -> Condition {
    Condition { property, patterns: Patterns::Strict(texts(of)) }
}

fn regexp(property: Property, of: &[&str]) -> Condition {
    Condition { property, patterns: Patterns::regexp(&texts(of)).unwrap() }
}

#[test]
fn every_property_has_its_value() {
    let values = PROPERTIES.map(|property| server().values(property).join(" "));
    assert_eq!(
        values,
        [
            "/ /kubepods/pod1",
            "python3 -m vllm serve",
            "0123",
            "python3.12",
            "/opt/venv/bin/python3.12",
            "inference",
            "vllm-0",
            "11111111-2222",
            "chat",
            "1000 alice"
        ]
    );
}

#[test]
fn unknown_property_matches_no_pattern() {
    for property in PROPERTIES {
        let entry = vec![vec![regexp(property, &[".*"])]];
        let include = Selection { include: entry.clone(), exclude: Vec::new() };
        let exclude = Selection { include: Vec::new(), exclude: entry };
        let unknown = Subject::default();
        assert_eq!((include.selects(&unknown), exclude.selects(&unknown)), (false, true), "{property:?}");
        assert_eq!((include.selects(&server()), exclude.selects(&server())), (true, false), "{property:?}");
    }
}

#[test]
fn all_conditions_of_an_entry_must_hold() {
    let users = strict(Property::User, &["bob", "alice"]);
    let both = |command| vec![vec![users.clone(), regexp(Property::CommandLine, &[command])]];
    let selects = |include| Selection { include, exclude: Vec::new() }.selects(&server());
    assert!(selects(both("vllm serve$")));
    assert!(!selects(both("^vllm")));
}

#[test]
fn strict_patterns_match_whole_texts() {
    let name = |patterns: Patterns| Condition { property: Property::ExecutableName, patterns };
    assert!(!name(Patterns::Strict(texts(&["python3"]))).holds(&server()));
    assert!(name(Patterns::regexp(&texts(&["python3"])).unwrap()).holds(&server()));
}

#[test]
fn wrong_pattern_is_found_in_its_list() {
    let error = Patterns::regexp(&texts(&["a", "b(", "c"])).unwrap_err();
    assert_eq!((error.index, error.to_string().as_str()), (1, "unclosed group"));
}

#[test]
fn ended_process_is_not_known() {
    assert!(server().is_known());
    assert!(!Subject { users: texts(&["0"]), ..Subject::default() }.is_known());
}

fn property() -> impl Strategy<Value = Property> {
    prop::sample::select(PROPERTIES.to_vec())
}

fn condition() -> impl Strategy<Value = Condition> {
    let words = prop::collection::vec("[ab]{1,2}", 1..3);
    (property(), words, any::<bool>()).prop_map(|(property, words, is_strict)| {
        let patterns = match is_strict {
            true => Patterns::Strict(words),
            false => Patterns::regexp(&words).unwrap(),
        };
        Condition { property, patterns }
    })
}

fn entries() -> impl Strategy<Value = Vec<Vec<Condition>>> {
    prop::collection::vec(prop::collection::vec(condition(), 1..3), 0..3)
}

fn selection() -> impl Strategy<Value = Selection> {
    (entries(), entries()).prop_map(|(include, exclude)| Selection { include, exclude })
}

fn subject() -> impl Strategy<Value = Subject> {
    let words = || prop::collection::vec("[ab]{1,3}", 0..3);
    let text = || "[ab]{0,3}";
    let attributes = prop::collection::vec(
        (prop::sample::select(vec!["k8s.pod.name", "service.name"]), "[ab]{1,3}"),
        0..2,
    );
    (words(), words(), words(), [text(), text(), text()], attributes).prop_map(
        |(users, cgroups, command, [executable, executable_path, container_id], attributes)| {
            let attributes = attributes.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
            let info = ProcessInfo {
                executable,
                executable_path,
                command,
                container_id,
                attributes,
                ..ProcessInfo::default()
            };
            Subject { info, users, cgroups }
        },
    )
}

/// Returns whether a pattern matches, written without the code under test.
fn matches(condition: &Condition, value: &str) -> bool {
    match &condition.patterns {
        Patterns::Strict(texts) => texts.contains(&value.to_owned()),
        Patterns::Regexp(set) => set.patterns().iter().any(|p| value.contains(p.as_str())),
    }
}

proptest! {
    #[test]
    fn selection_is_what_its_definition_says(selection in selection(), subject in subject()) {
        let mut included = selection.include.is_empty();
        let mut excluded = false;
        for (entries, matched) in [(&selection.include, &mut included), (&selection.exclude, &mut excluded)] {
            for entry in entries {
                let mut all = true;
                for condition in entry {
                    let values = subject.values(condition.property);
                    all = all && values.iter().any(|value| matches(condition, value));
                }
                *matched = *matched || all;
            }
        }
        prop_assert_eq!(selection.selects(&subject), included && !excluded);
    }

    #[test]
    fn another_exclusion_selects_no_more(selection in selection(), more in entries(), subject in subject()) {
        let mut narrower = selection.clone();
        narrower.exclude.extend(more);
        prop_assert!(selection.selects(&subject) || !narrower.selects(&subject));
    }

    #[test]
    fn another_inclusion_selects_no_fewer(selection in selection(), more in entries(), subject in subject()) {
        let mut wider = selection.clone();
        if !wider.include.is_empty() {
            wider.include.extend(more);
        }
        prop_assert!(wider.selects(&subject) || !selection.selects(&subject));
    }

    #[test]
    fn order_of_entries_and_conditions_does_not_matter(selection in selection(), subject in subject()) {
        let mut turned = selection.clone();
        for entries in [&mut turned.include, &mut turned.exclude] {
            entries.reverse();
            entries.iter_mut().for_each(|entry| entry.reverse());
        }
        prop_assert_eq!(turned.selects(&subject), selection.selects(&subject));
    }
}
