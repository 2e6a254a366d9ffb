//! axe-core must find no violation on any page, in light and dark, wide and narrow, with and without the page's
//! script. `HOOKPROOF_AXE` names the file axe.min.js; without it a line is printed, unless `HOOKPROOF_DEMANDS` names
//! `axe-core`.

use super::{Page, browser, golden};

const RUN: &str = r#"<script>
axe.run({ resultTypes: ['violations'] }).then(found => {
  const shown = document.createElement('pre');
  shown.id = 'probe';
  shown.textContent = JSON.stringify({ rules: found.passes.length, broken: found.violations.map(one =>
    `${one.id} (${one.impact}) at ${one.nodes.slice(0, 3).map(node => node.target.join(' ')).join(', ')}`) });
  document.body.append(shown);
});
</script></body>"#;

/// A file has no server that a live page could ask again.
const UNANSWERED: &str = "<head><script>window.fetch = () => new Promise(() => {});</script>";

/// axe needs some time; virtual time skips idle waits.
const WAITS: &str = "--virtual-time-budget=60000";

fn axe() -> Option<String> {
    let Some(path) = std::env::var_os("HOOKPROOF_AXE") else {
        browser::demanded("axe-core", "HOOKPROOF_AXE names no axe.min.js");
        return None;
    };
    let path = std::path::PathBuf::from(path);
    Some(std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display())))
}

fn without_script(html: &str) -> String {
    let (before, rest) = html.rsplit_once("<script>").expect("a page has a script");
    let (_, after) = rest.split_once("</script>").expect("it ends");
    format!("{before}{after}")
}

#[test]
fn every_page_is_one_that_everybody_can_read() {
    let Some(axe) = axe() else { return };
    let (light, dark) =
        ("--blink-settings=preferredColorScheme=1", "--blink-settings=preferredColorScheme=0");
    let ways: [(&str, bool, &[&str]); 4] = [
        ("in light", true, &[light]),
        ("in dark", true, &[dark]),
        ("narrow", true, &[light, "--window-size=500,800"]),
        ("without its script", false, &[light]),
    ];
    let pages = golden::pages();
    std::thread::scope(|scope| {
        for (way, scripted, arguments) in ways {
            let (axe, pages) = (&axe, &pages);
            scope.spawn(move || pages.iter().for_each(|page| check(axe, page, way, scripted, arguments)));
        }
    });
}

fn check(axe: &str, (name, html): &(&str, String), way: &str, scripted: bool, arguments: &[&str]) {
    let html = if scripted { html.clone() } else { without_script(html) };
    let Some(page) = Page::of("every_page_is_one_that_everybody_can_read", html) else { return };
    let looked = page.html.replacen("<head>", UNANSWERED, 1);
    let looked = looked.replace("</body>", &format!("<script>{axe}</script>{RUN}"));
    let found = page.probed(&looked, &[arguments, &[WAITS]].concat());
    assert!(found["rules"].as_u64() > Some(10), "{name} {way}: {found}");
    assert_eq!(found["broken"], serde_json::json!([]), "{name} {way}");
}
