use super::Row;
use super::run::{Run, calm};
use crate::build;

pub(super) const ROWS: [Row; 6] = [
    Row {
        check: "loss.none",
        broken: "an event that was taken never comes, and nobody says that it waits or is given up",
        good: || {
            let mut run = calm("");
            run.mute().event(3, 1_500).request(3, 1_510, 204);
            run
        },
        breaks: |run| {
            run.unsent();
        },
    },
    Row {
        check: "loss.unexpected",
        broken: "an event comes to a subscriber that it does not concern",
        good: || calm("[[subscriber]]\nname = \"b\""),
        breaks: |run| build::deliver(&mut run.trace, "b", 0, 1_010_000_000, 204),
    },
    Row {
        check: "duplicate.bounded",
        broken: "a delivery is made a second time during the first",
        good: || {
            let mut run = calm("");
            run.answered(0, 1_050);
            run
        },
        breaks: |run| {
            run.request(0, 1_030, 204);
        },
    },
    Row {
        check: "duplicate.dedupe",
        broken: "an event that was offered twice is delivered twice",
        good: || {
            let mut run = Run::new("[events]\nrepeated = 0.5");
            run.delivery(0, 1_000).event(0, 2_000);
            run
        },
        breaks: |run| {
            run.request(0, 2_010, 204);
        },
    },
    Row {
        check: "coalesce.window",
        broken: "of three events of one key within a window each comes",
        good: || {
            let mut run = Run::new("coalesce = [{ type = \"video.trending\", window = \"1s\" }]");
            run.event(0, 1_000).event(1, 1_100).event(2, 1_200).request(2, 2_000, 204);
            run
        },
        breaks: |run| {
            run.request(0, 2_010, 204).request(1, 2_020, 204);
        },
    },
    Row {
        check: "order.per-key",
        broken: "an event overtakes an earlier one of its key",
        good: || calm("ordered = true"),
        breaks: |run| {
            run.moved(1, 3_020);
        },
    },
];
