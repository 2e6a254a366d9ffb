//! What axe-core finds on each page: nothing, in light and in dark, wide and narrow, with the page's own script and without.
//!
//! `HOOKPROOF_AXE` names its file, axe.min.js; without it a line says that nothing was looked for, unless `HOOKPROOF_DEMANDS`
//! names `axe-core`.

use super::{Page, browser, golden};

/// What it leaves in an element that the browser prints: a line for each rule that is broken.
const RUN: &str = r#"<script>
axe.run({ resultTypes: ['violations'] }).then(found => {
  const shown = document.createElement('pre');
  shown.id = 'probe';
  shown.textContent = JSON.stringify({ rules: found.passes.length, broken: found.violations.map(one =>
    `${one.id} (${one.impact}) at ${one.nodes.slice(0, 3).map(node => node.target.join(' ')).join(', ')}`) });
  document.body.append(shown);
});
</script></body>"#;

/// It needs a while, which passes at once where nothing else waits.
const WAITS: &str = "--virtual-time-budget=60000";

fn axe() -> Option<String> {
    let Some(path) = std::env::var_os("HOOKPROOF_AXE") else {
        browser::demanded("axe-core", "HOOKPROOF_AXE names no axe.min.js");
        return None;
    };
    let path = std::path::PathBuf::from(path);
    Some(std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display())))
}

/// The page without the script that it came with.
fn without_script(html: &str) -> String {
    let (before, rest) = html.rsplit_once("<script>").expect("a page has a script");
    let (_, after) = rest.split_once("</script>").expect("it ends");
    format!("{before}{after}")
}

#[test]
fn every_page_is_one_that_everybody_can_read() {
    let Some(axe) = axe() else { return };
    for (name, html) in golden::pages() {
        let Some(page) = Page::of("every_page_is_one_that_everybody_can_read", html) else { return };
        let plain = without_script(&page.html);
        let (light, dark) =
            ("--blink-settings=preferredColorScheme=1", "--blink-settings=preferredColorScheme=0");
        let ways: [(&str, &str, &[&str]); 4] = [
            ("in light", &page.html, &[light]),
            ("in dark", &page.html, &[dark]),
            ("narrow", &page.html, &[light, "--window-size=500,800"]),
            ("without its script", &plain, &[light]),
        ];
        for (way, html, arguments) in ways {
            let looked = html.replace("</body>", &format!("<script>{axe}</script>{RUN}"));
            let found = page.probed(&looked, &[arguments, &[WAITS]].concat());
            assert!(found["rules"].as_u64() > Some(10), "{name} {way}: {found}");
            assert_eq!(found["broken"], serde_json::json!([]), "{name} {way}");
        }
    }
}
