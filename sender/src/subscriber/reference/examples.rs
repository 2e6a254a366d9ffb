//! Tests replay the examples.

pub(super) struct Example {
    pub(super) setting: &'static str,
    pub(super) before: &'static str,
    /// The setting on the command line and as JSON, with events and results.
    pub(super) text: &'static str,
    pub(super) after: &'static str,
}

pub(super) const EXAMPLES: &[Example] = &[
    Example {
        setting: "coalesce",
        before: "A video's rank changes many times a second, and the subscriber wants to know it every 5 s at most.",
        text: r#"command line  coalesce='[{"events":"video.rank_updated","window":"5s"}]'
JSON          {"coalesce": [{"events": "video.rank_updated", "window": "5s"}]}

at 0 s  {"type": "video.rank_updated", "key": "v1", "data": {"rank": 9}}   coalesced
at 2 s  {"type": "video.rank_updated", "key": "v1", "data": {"rank": 4}}   coalesced
at 3 s  {"type": "video.rank_updated", "key": "v2", "data": {"rank": 7}}   delivered at 8 s
at 4 s  {"type": "video.rank_updated", "key": "v1", "data": {"rank": 1}}   delivered at 5 s"#,
        after: "The first event opens the window. A later event with the same type and key takes its place until the window is over, \
                without moving its end. A replaced event counts as `coalesced` and is never sent.",
    },
    Example {
        setting: "shape",
        before: "The subscriber may see how often a video was watched, and tell creators apart without their names.",
        text: r#"command line  shape.allow=video,stats.views
              shape.pseudonymise='[{"field":"channel_id","as":"creator"}]' shape.region=DE
JSON          {"shape": {"allow": ["video", "stats.views"], "region": "DE",
               "pseudonymise": [{"field": "channel_id", "as": "creator"}]}}

emitted       {"video":"v1","channel_id":"UC42","email":"a@b.eu","stats":{"views":7,"likes":2}}
delivered     {"video":"v1","creator":"<64 hexadecimal digits>","stats":{"views":7}}"#,
        after: "`video` goes out whole, of `stats` only the views, `email` not at all. `channel_id` need not be allowed to \
                be replaced. The sender needs the region's secret: `serve --region DE=REGION_SECRET`, and the same for \
                `subscriber add` and `subscriber set`, where REGION_SECRET is an environment variable.",
    },
];
