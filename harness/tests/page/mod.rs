//! The report's page in a browser, without a network. Without Chromium each test prints a line and passes, unless
//! `HOOKPROOF_DEMANDS` names it.

mod axe;
mod browser;
mod gallery;
mod golden;
mod live;

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

const PROBE: &str = r#"<script>
const seen = list => [...list].filter(one => { const box = one.getBoundingClientRect(); return box.width > 0 && box.height > 0; });
const inside = one => { const box = one.getBoundingClientRect(), svg = one.closest('svg.chart, svg.shape').getBoundingClientRect();
  return box.left >= svg.left - 1 && box.right <= svg.right + 1 && box.top >= svg.top - 1 && box.bottom <= svg.bottom + 1; };
const covers = (one, other) => { const [a, b] = [one, other].map(text => text.getBoundingClientRect());
  const over = (from, until) => Math.min(a[until], b[until]) - Math.max(a[from], b[from]);
  return over('left', 'right') > 1 && over('top', 'bottom') > 3; };
const found = document.createElement('pre');
found.id = 'probe';
found.textContent = JSON.stringify({
  charts: seen(document.querySelectorAll('svg.chart')).length,
  bare: seen(document.querySelectorAll('svg.plot')).filter(svg => seen(svg.querySelectorAll('path, polyline, rect')).length === 0).length,
  taken: seen(document.querySelectorAll('svg path.taken')).length,
  outside: [...document.querySelectorAll('svg rect, svg line, svg path, svg text')].filter(one => !inside(one)).length,
  collide: [...document.querySelectorAll('svg.chart')].flatMap(chart => { const boxes = seen(chart.querySelectorAll('text'));
    return boxes.flatMap((one, at) => boxes.slice(at + 1).filter(other => covers(one, other)).map(other => one.textContent + ' | ' + other.textContent)); }),
  tall: document.documentElement.scrollHeight,
  witnesses: seen(document.querySelectorAll('svg rect.witness')).length,
  faults: seen(document.querySelectorAll('svg rect.fault')).length,
  wide: window.innerWidth,
  wider: document.documentElement.scrollWidth - document.documentElement.clientWidth,
  loaded: performance.getEntriesByType('resource').map(one => one.name),
  paper: getComputedStyle(document.body).backgroundColor,
  ink: getComputedStyle(document.body).color,
  text: document.querySelector('main').innerText,
  levels: seen(document.querySelectorAll('svg polyline.level')).length,
  accused: seen(document.querySelectorAll('svg path.tick.accused, svg rect.accused')).length,
  pauses: seen(document.querySelectorAll('svg rect.pause')).length,
  fields: document.querySelectorAll('input.search').length,
  found: (field => { if (!field) return null; field.value = 'many-777'; field.oninput();
    return [...document.querySelectorAll('table.searched tbody tr')].filter(row => !row.hidden).length; })(document.querySelector('input.search')),
  closer: (chart => { if (!chart) return null;
    const box = chart.getBoundingClientRect(), at = x => ({ clientX: box.left + 72 + (box.width - 72) * x, pointerType: 'mouse' });
    const width = () => chart.querySelector('svg.plot').viewBox.baseVal.width, whole = width();
    chart.onpointerdown(at(0.25)); chart.onpointerup(at(0.5)); const part = width();
    chart.ondblclick(); return [part / whole, width() / whole]; })(document.querySelector('svg.chart[data-from]')),
});
(window.parent === window ? document : window.parent.document).body.append(found);
</script></body>"#;

struct Page {
    folder: tempfile::TempDir,
    program: PathBuf,
    html: String,
}

fn page(test: &str, trace: &str) -> Option<Page> {
    let trace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scenarios/traces").join(trace);
    render_page(test, |command| command.arg("check").arg(trace))
}

fn render_page(test: &str, arguments: impl FnOnce(&mut Command) -> &mut Command) -> Option<Page> {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("report.html");
    let mut command = Command::new(env!("CARGO_BIN_EXE_hookproof"));
    let checked = arguments(&mut command).arg("--html").arg(&file).output().expect("it starts");
    let html = std::fs::read_to_string(&file)
        .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&checked.stderr)));
    Page::of(test, html)
}

impl Page {
    fn of(test: &str, html: String) -> Option<Self> {
        let Some(program) = browser::find() else {
            let why = format!("{test}: no Chromium on the PATH, and HOOKPROOF_CHROMIUM is not set");
            browser::demanded("chromium", &why);
            return None;
        };
        Some(Self { folder: tempfile::tempdir().expect("a folder"), program, html })
    }

    /// Any output on the console fails.
    fn probe(&self, arguments: &[&str]) -> Value {
        self.probed(&self.html.replace("</body>", PROBE), arguments)
    }

    /// In a frame of this width, because windows have a minimal width.
    fn probe_framed(&self, width: u32) -> Value {
        let frame = frame("page", width, &self.html.replace("</body>", PROBE));
        self.probed(&format!("<!doctype html><body>{frame}</body>"), &["--window-size=1000,1400"])
    }

    fn probed(&self, html: &str, arguments: &[&str]) -> Value {
        let file = self.folder.path().join("probed.html");
        std::fs::write(&file, html).expect("written");
        let shown = self.run(arguments, &["--dump-dom", &format!("file://{}", file.display())]);
        let dom = String::from_utf8_lossy(&shown.stdout);
        let said = String::from_utf8_lossy(&shown.stderr);
        let console: Vec<&str> = said.lines().filter(|line| line.contains("CONSOLE")).collect();
        assert_eq!(console, Vec::<&str>::new());
        let found = dom.split("<pre id=\"probe\">").nth(1).and_then(|rest| rest.split("</pre>").next());
        let found = found.unwrap_or_else(|| panic!("the browser printed no page: {said}"));
        let found = found.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&");
        serde_json::from_str(&found).expect("what the probe wrote")
    }

    fn run(&self, arguments: &[&str], last: &[&str]) -> std::process::Output {
        let all: Vec<String> = arguments.iter().chain(last).map(|one| (*one).to_owned()).collect();
        browser::run(&self.program, &self.folder.path().join("profile"), &all)
    }
}

fn frame(name: &str, width: u32, html: &str) -> String {
    let page = html.replace('&', "&amp;").replace('"', "&quot;");
    format!("<iframe name=\"{name}\" style=\"width:{width}px;height:900px\" srcdoc=\"{page}\"></iframe>")
}

fn number(found: &Value, name: &str) -> i64 {
    found[name].as_i64().unwrap_or_else(|| panic!("{name}: {found}"))
}

#[test]
fn every_chart_has_its_marks_and_nothing_is_loaded_from_anywhere() {
    let Some(page) = page("every_chart_has_its_marks", "good.jsonl") else { return };
    let found = page.probe(&["--window-size=1000,1400"]);
    assert!(number(&found, "charts") >= 2 && number(&found, "taken") > 0, "{found}");
    assert_eq!((number(&found, "bare"), number(&found, "outside")), (0, 0), "{found}");
    assert_eq!(number(&found, "witnesses"), 0, "{found}");
    assert_eq!(found["loaded"], Value::Array(Vec::new()));
    assert!(
        found["text"].as_str().is_some_and(|text| text.contains("golden\n") && text.contains("PASS")),
        "{found}"
    );
}

#[test]
fn the_witness_of_a_failed_check_is_marked_and_told() {
    for (trace, check) in [("over-rate.jsonl", "rate.envelope"), ("early-retry.jsonl", "retry.after-429")] {
        let Some(page) = page("the_witness_of_a_failed_check", trace) else { return };
        let found = page.probe(&["--window-size=1000,1400"]);
        assert!(number(&found, "witnesses") > 0 && number(&found, "accused") > 0, "{trace}: {found}");
        assert_eq!(number(&found, "outside"), 0, "{trace}: {found}");
        let text = found["text"].as_str().unwrap_or_default();
        assert!(text.contains(check) && text.contains("Remedy"), "{trace}: {text}");
    }
}

#[test]
fn a_witness_is_drawn_as_what_it_is_about() {
    let Some(page) = page("a_witness_is_drawn", "over-rate.jsonl") else { return };
    let found = page.probe(&["--window-size=1000,1400"]);
    assert!(number(&found, "levels") > 0 && page.html.contains("allowed: 5"), "{found}");
    let Some(page) = self::page("a_witness_is_drawn", "early-retry.jsonl") else { return };
    let found = page.probe(&["--window-size=1000,1400"]);
    assert!(number(&found, "pauses") > 0 && page.html.contains("no retry before 2.01"), "{found}");
}

#[test]
fn a_trace_that_is_refused_has_a_page_that_says_why() {
    let Some(page) = page("a_trace_that_is_refused", "after-the-end.jsonl") else { return };
    let found = page.probe(&["--window-size=400,800"]);
    let text = found["text"].as_str().unwrap_or_default();
    assert!(text.contains("not judged") && text.contains("This run proves nothing"), "{text}");
}

#[test]
fn a_chart_is_looked_at_closely_and_as_a_whole_again() {
    let Some(page) = page("a_chart_is_looked_at_closely", "over-rate.jsonl") else { return };
    let found = page.probe(&["--window-size=1000,1400"]);
    let widths: Vec<f64> =
        found["closer"].as_array().expect("a chart").iter().filter_map(Value::as_f64).collect();
    assert!((widths[0] - 0.25).abs() < 0.01 && (widths[1] - 1.0).abs() < 0.01, "{found}");
}

#[test]
fn it_reads_without_its_script() {
    let Some(page) = page("it_reads_without_its_script", "over-rate.jsonl") else { return };
    let file = page.folder.path().join("plain.html");
    let forbids = "<head><meta http-equiv=\"Content-Security-Policy\" content=\"script-src 'none'\">";
    let plain = page.html.replace("<head>", forbids).replace("</body>", PROBE);
    std::fs::write(&file, plain).expect("written");
    let shown = page.run(&[], &["--dump-dom", &format!("file://{}", file.display())]);
    let dom = String::from_utf8_lossy(&shown.stdout);
    assert!(!dom.contains("id=\"probe\""), "scripts ran");
    for part in ["rate.envelope", "<svg", "polyline class=\"line level\"", "Repeat it", "<details"] {
        assert!(dom.contains(part), "{part}");
    }
}

#[test]
fn a_passing_run_writes_no_picture_and_removes_an_older_one() {
    let folder = tempfile::tempdir().expect("a folder");
    let picture = folder.path().join("picture.svg");
    for is_older in [true, false] {
        if is_older {
            std::fs::write(&picture, "<svg/>").expect("written");
        }
        let passed = Command::new(env!("CARGO_BIN_EXE_hookproof"))
            .arg("check")
            .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("../scenarios/traces/good.jsonl"))
            .arg("--picture")
            .arg(&picture)
            .output()
            .expect("it starts");
        let said = String::from_utf8_lossy(&passed.stderr);
        assert_eq!(passed.status.code(), Some(0), "{said}");
        assert!(said.contains("was not written: the run has no failure") && !picture.exists(), "{said}");
    }
}

#[test]
fn the_picture_of_the_readme_is_what_its_command_makes() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let readme = std::fs::read_to_string(root.join("README.md")).expect("a README");
    let command =
        readme.lines().find(|line| line.starts_with("hookproof check") && line.contains("--picture"));
    let command = command.expect("the README names the command");
    let folder = tempfile::tempdir().expect("a folder");
    let made = folder.path().join("picture.svg");
    let (arguments, kept) = command.rsplit_once(' ').expect("a file");
    let mut program = Command::new(env!("CARGO_BIN_EXE_hookproof"));
    program.current_dir(&root).args(arguments.split(' ').skip(1)).arg(&made);
    program.output().expect("it starts");
    let [made, kept] = [made, root.join(kept)].map(|path| std::fs::read_to_string(path).expect("a picture"));
    assert!(made == kept, "the picture is stale: {command}");
}

#[test]
fn a_thousand_subscribers_fit_and_each_can_be_found() {
    let Some(page) = Page::of("a_thousand_subscribers", golden::thousand()) else { return };
    assert!(page.html.len() < 3 << 20, "{} bytes", page.html.len());
    assert_eq!(page.html.matches("<td>many-").count(), 1_000);
    let found = page.probe(&["--window-size=1000,1400"]);
    assert_eq!((number(&found, "fields"), number(&found, "found")), (1, 1), "{found}");
    assert_eq!((number(&found, "wider"), number(&found, "outside")), (0, 0));
    assert!(number(&found, "charts") < 40, "{}", found["charts"]);
}

const SCREENS_MAX: i64 = 10;

#[test]
fn every_page_fits_a_narrow_screen() {
    for (name, html) in golden::PAGES.iter() {
        let Some(page) = Page::of("every_page_fits_a_narrow_screen", html.clone()) else { return };
        let found = page.probe_framed(360);
        assert_eq!((number(&found, "wide"), number(&found, "wider")), (360, 0), "{name}");
        assert_eq!((number(&found, "outside"), &found["loaded"]), (0, &Value::Array(Vec::new())), "{name}");
        assert_eq!(found["collide"], Value::Array(Vec::new()), "{name}");
        assert!(number(&found, "tall") <= SCREENS_MAX * 900, "{name}: {}", found["tall"]);
    }
}

#[test]
fn it_follows_the_reader_into_the_dark() {
    let Some(page) = page("it_follows_the_reader_into_the_dark", "good.jsonl") else { return };
    let light = page.probe(&["--blink-settings=preferredColorScheme=1"]);
    let dark = page.probe(&["--blink-settings=preferredColorScheme=0"]);
    assert_eq!(light["paper"], "rgb(255, 255, 255)");
    assert_ne!((&light["paper"], &light["ink"]), (&dark["paper"], &dark["ink"]));
}

#[test]
fn it_prints() {
    let Some(page) = page("it_prints", "over-rate.jsonl") else { return };
    let (file, paper) = (page.folder.path().join("page.html"), page.folder.path().join("page.pdf"));
    std::fs::write(&file, &page.html).expect("written");
    let to = format!("--print-to-pdf={}", paper.display());
    page.run(&[&to], &["--no-pdf-header-footer", &format!("file://{}", file.display())]);
    let pdf = std::fs::read(&paper).expect("it was printed");
    let text = String::from_utf8_lossy(&pdf);
    let sheets = text.matches("/Type /Page\n").count() + text.matches("/Type/Page/").count();
    assert!(pdf.starts_with(b"%PDF") && sheets >= 1, "{sheets} sheets, {} bytes", pdf.len());
}

#[test]
#[ignore = "writes reports/*.png, which differ between fonts"]
fn samples() {
    for (name, html) in golden::PAGES.iter() {
        if !["pass", "over-rate", "live", "receiver", "load", "plan"].contains(name) {
            continue;
        }
        let Some(page) = Page::of("samples", html.clone()) else { return };
        let file = page.folder.path().join("page.html");
        std::fs::write(&file, &page.html).expect("written");
        let to = Path::new(env!("CARGO_MANIFEST_DIR")).join("../reports").join(format!("page-{name}.png"));
        let look = ["--blink-settings=preferredColorScheme=1", "--window-size=1000,900"];
        let shot = format!("--screenshot={}", to.display());
        page.run(&look, &[&shot, &format!("file://{}", file.display())]);
        let bytes = std::fs::metadata(&to).expect("a picture").len();
        assert!(bytes < 150_000, "{name}: {bytes} bytes");
    }
}
