//! A persistent queue behaves like a list under random actions, compared with the model in `world`.

use proptest::prelude::*;
use queue::Sizer;

use crate::harness::{Answer, Shape};
use crate::world::{Action, check};

fn action() -> impl Strategy<Value = Action> {
    prop_oneof![
        4 => (1u8..40).prop_map(Action::Arrive),
        3 => (1u8..40).prop_map(Action::Burst),
        3 => (0u8..100).prop_map(Action::Wait),
        2 => prop_oneof![Just(Answer::Take), Just(Answer::Later), Just(Answer::Never), Just(Answer::Hang)]
            .prop_map(Action::Answer),
        1 => any::<bool>().prop_map(Action::Full),
        2 => any::<u8>().prop_map(Action::Kill),
        1 => Just(Action::Restart),
    ]
}

fn shape() -> impl Strategy<Value = Shape> {
    let sizer = prop_oneof![
        (Just(Sizer::Requests), 1i64..60),
        (Just(Sizer::Items), 20i64..400),
        (Just(Sizer::Bytes), 1000i64..20_000),
    ];
    let batch = prop::option::of((1i64..30, 0i64..30).prop_map(|(min, more)| (min, min + more)));
    (sizer, 1i64..12, batch).prop_map(|((sizer, queue_size), num_consumers, batch)| Shape {
        sizer,
        queue_size,
        num_consumers,
        batch,
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    #[test]
    fn nothing_acknowledged_is_lost(shape in shape(), actions in prop::collection::vec(action(), 1..60)) {
        check(shape, &actions);
    }

    /// With a backend that always answers, and without batches, only requests in flight are delivered twice.
    #[test]
    fn only_what_was_in_flight_is_delivered_twice(shape in shape(), actions in prop::collection::vec(action(), 1..60)) {
        let answers = |action: &Action| *action != Action::Answer(Answer::Hang);
        let actions: Vec<Action> = actions.into_iter().filter(answers).collect();
        let report = check(Shape { batch: None, ..shape }, &actions);
        let most = actions.iter().filter(|a| matches!(a, Action::Kill(_))).count() * shape.num_consumers as usize * 40;
        prop_assert!(report.duplicates <= most, "{report:?} of at most {most}");
    }
}
