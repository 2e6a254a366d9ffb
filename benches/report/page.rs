use std::fmt::Write as _;

use crate::figures::{Figure, Row};

/// Where and when the benches ran.
#[derive(Debug)]
pub(crate) struct Machine {
    pub(crate) processor: String,
    pub(crate) cores: usize,
    pub(crate) memory: String,
    pub(crate) kernel: String,
    pub(crate) date: String,
    pub(crate) commit: String,
}

const HEAD: &str = "\
# Benchmarks

`just bench-report` runs the benches and writes this page. A ratio compares a figure with a ceiling that was measured beside it, on the same
cores. A row with a ÷ is itself a ratio. Compare ratios between machines, not figures.
";

pub(crate) fn page(machine: &Machine, rows: &[(&Figure, Row)]) -> String {
    let Machine { processor, cores, memory, kernel, date, commit } = machine;
    let mut page = HEAD.to_owned();
    let _ = write!(
        page,
        "\n| machine | {processor}, {cores} cores, {memory} |\n|---|---|\n| system | Linux {kernel} |\n| date | {date} |\n\
         | commit | `{commit}` |\n\n| figure | value | ratio | bench |\n|---|---|---|---|\n"
    );
    for (figure, row) in rows {
        let _ = writeln!(page, "| {} | {} | {} | `{}` |", figure.name, row.value, row.ratio, figure.bench);
    }
    page.push_str("\nOne bench alone: `cargo bench -p hookproof-benches --bench NAME`.\n");
    page
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::FIGURES;

    #[test]
    fn the_page_has_the_machine_the_commit_and_a_row_for_each_figure() {
        let text = |text: &str| text.to_owned();
        let machine = Machine {
            processor: text("Xeon"),
            cores: 2,
            memory: text("8 kB"),
            kernel: text("6.1"),
            date: text("2026-11-27"),
            commit: text("0123abcd"),
        };
        let row = || Row { value: text("5/s"), ratio: text("0.5 of a bare client") };
        let rows: Vec<(&Figure, Row)> = FIGURES.iter().map(|figure| (figure, row())).collect();
        let page = page(&machine, &rows);
        for part in
            ["Xeon, 2 cores", "2026-11-27", "`0123abcd`", "| 5/s | 0.5 of a bare client | `end_to_end` |"]
        {
            assert!(page.contains(part), "{part}: {page}");
        }
        assert_eq!(page.matches("| 5/s |").count(), FIGURES.len());
    }
}
