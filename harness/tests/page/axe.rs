//! axe-core must find no violation on any page, in light and dark, wide and narrow, with and without the page's
//! script. `HOOKPROOF_AXE` names the file axe.min.js; without it a line is printed, unless `HOOKPROOF_DEMANDS` names
//! `axe-core`.

use super::{Page, browser, frame, golden};

const RUN: &str = r"<script>
axe.run({ resultTypes: ['violations'] }).then(found => window.parent.tell(window.name, {
  rules: found.passes.length,
  broken: found.violations.map(one =>
    `${one.id} (${one.impact}) at ${one.nodes.slice(0, 3).map(node => node.target.join(' ')).join(', ')}`),
}));
</script></body>";

const TOLD: &str = r"<!doctype html><body><script>
const all = {};
window.tell = (name, found) => {
  all[name] = found;
  if (Object.keys(all).length < document.querySelectorAll('iframe').length) return;
  const shown = document.createElement('pre');
  shown.id = 'probe';
  shown.textContent = JSON.stringify(all);
  document.body.append(shown);
};
</script>";

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

/// Frames of one browser.
const AT_ONCE: usize = 4;

#[test]
fn every_page_is_one_that_everybody_can_read() {
    let Some(axe) = axe() else { return };
    let ways = [
        ("in light", true, 1_000, "--blink-settings=preferredColorScheme=1"),
        ("in dark", true, 1_000, "--blink-settings=preferredColorScheme=0"),
        ("narrow", true, 390, "--blink-settings=preferredColorScheme=1"),
        ("without its script", false, 1_000, "--blink-settings=preferredColorScheme=1"),
    ];
    for pages in golden::PAGES.chunks(AT_ONCE) {
        for (way, scripted, width, scheme) in ways {
            let frames = pages.iter().map(|(name, html)| {
                let html = if scripted { html.clone() } else { without_script(html) };
                let looked = html.replacen("<head>", UNANSWERED, 1);
                frame(name, width, &looked.replace("</body>", &format!("<script>{axe}</script>{RUN}")))
            });
            let all: String = std::iter::once(TOLD.to_owned()).chain(frames).collect();
            let Some(page) = Page::of("every_page_is_one_that_everybody_can_read", all) else { return };
            let found = page.probed(&page.html, &[scheme, WAITS]);
            for (name, _) in pages {
                let found = &found[name];
                assert!(found["rules"].as_u64() > Some(10), "{name} {way}: {found}");
                assert_eq!(found["broken"], serde_json::json!([]), "{name} {way}");
            }
        }
    }
}
