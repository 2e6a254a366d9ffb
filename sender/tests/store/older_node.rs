//! A node of the version before on a server (schema 3): the statements that it carries out, as they stand in the sources of commit
//! 698dc23c, the last before `schema_4.sql`, and as much of what goes on around them as one needs to work lanes with them.

use std::collections::{BTreeMap, BTreeSet};

use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Row, Statement};

/// The statements, by the files that they are from.
mod statements {
    // open.rs
    pub(super) const NEW_WRITER: &str =
        "INSERT INTO totals (writer) VALUES (1 + (random() * 9e18)::int8) RETURNING writer";
    // wanted.rs
    pub(super) const LANES: &str = "SELECT accepted, delivered, dead, coalesced, waiting, waiting_bytes, retrying, dead_kept, failed_attempts, latency_us, lane, state, rows_max, bytes_max, when_full, owner, term, capped, arrivals, earliest, disturbed, head FROM lanes
     WHERE lane = ANY($1) ORDER BY lane FOR UPDATE";
    pub(super) const OWNERS: &str =
        "SELECT owner, until, evicted, taken FROM owners ORDER BY owner FOR UPDATE";
    pub(super) const STATE: &str = "SELECT roster, stirred, next_lane, nodes FROM state";
    pub(super) const STATE_LOCKED: &str = "SELECT roster, stirred, next_lane, nodes FROM state FOR UPDATE";
    pub(super) const TOTALS: &str = "SELECT sum(accepted)::int8, sum(delivered)::int8, sum(dead)::int8, sum(coalesced)::int8, sum(waiting)::int8,
         sum(waiting_bytes)::int8, sum(retrying)::int8, sum(dead_kept)::int8, sum(failed_attempts)::int8,
         sum(latency_us)::int8, max(clock), (SELECT max(minute) FROM marks),
    (extract(epoch FROM clock_timestamp()) * 1000000)::int8 * 1000 FROM totals";
    // named.rs, rows.rs
    pub(super) const EVENT_NUMBERS: &str =
        "SELECT nextval('event_numbers') FROM generate_series(1, $1::int8)";
    pub(super) const NAMED: &str =
        "SELECT e.id, d.lane, e.received, e.in_part FROM events e CROSS JOIN LATERAL unnest(e.deliveries) n
    JOIN deliveries d ON d.delivery = n WHERE e.id = ANY($1)";
    pub(super) const DELIVERIES: &str =
        "SELECT delivery, lane, state, attempts, bytes, at, last_attempt, status, error, reason
    FROM deliveries WHERE delivery = ANY($1)";
    // columns.rs
    pub(super) const DELIVERY_NUMBERS: &str =
        "SELECT nextval('delivery_numbers') FROM generate_series(1, $1::int8)";
    pub(super) const NEW_EVENTS: &str = "INSERT INTO events SELECT event, id, kind, key, received, in_part,
         CASE WHEN deliveries IS NULL THEN ARRAY[delivery] ELSE deliveries::int8[] END,
         CASE WHEN bodies IS NULL THEN ARRAY[]::int8[] ELSE bodies::int8[] END, hash, bytes
         FROM unnest($1::int8[], $2::text[], $3::text[], $4::text[], $5::int8[], $6::bool[], $7::int8[], $8::text[],
         $9::text[], $10::int8[], $11::bytea[])
         u (event, id, kind, key, received, in_part, delivery, deliveries, bodies, hash, bytes)";
    pub(super) const NEW_DELIVERIES: &str =
        "INSERT INTO deliveries SELECT delivery, lane, event, body, bytes, state, 0, at, expires, ttl, NULL,
         reason, NULL, NULL, alike, signature
         FROM unnest($1::int8[], $2::int8[], $3::int8[], $4::int8[], $5::int8[], $6::int2[], $7::int8[],
         $8::int8[], $9::int8[], $10::int2[], $11::text[], $12::text[])
         u (delivery, lane, event, body, bytes, state, at, expires, ttl, reason, alike, signature)";
    pub(super) const CHANGED_DELIVERIES: &str =
        "UPDATE deliveries d SET state = u.state, at = u.at, attempts = u.attempts,
         last_attempt = u.last_attempt, status = u.status, error = u.error, reason = u.reason
         FROM unnest($1::int8[], $2::int2[], $3::int8[], $4::int8[], $5::int8[], $6::int4[], $7::text[], $8::int2[])
         u (delivery, state, at, attempts, last_attempt, status, error, reason) WHERE d.delivery = u.delivery";
    pub(super) const NEW_ATTEMPTS: &str =
        "INSERT INTO attempts SELECT * FROM unnest($1::int8[], $2::int8[], $3::int8[], $4::int8[], $5::int8[], $6::int2[], $7::int4[],
         $8::text[], $9::int8[], $10::int8[], $11::bool[])";
    // changes.rs
    pub(super) const CHANGED_LANES: &str = "UPDATE lanes l SET state = u.state, rows_max = u.rows_max, bytes_max = u.bytes_max,
         when_full = u.when_full, owner = u.owner, term = u.term, accepted = u.c0, delivered = u.c1, dead = u.c2,
         coalesced = u.c3, waiting = u.c4, waiting_bytes = u.c5, retrying = u.c6, dead_kept = u.c7,
         failed_attempts = u.c8, latency_us = u.c9, arrivals = u.arrivals, earliest = u.earliest, disturbed = u.disturbed, head = u.head
         FROM unnest($1::int8[], $2::int2[], $3::int8[], $4::int8[], $5::int2[], $6::int8[], $7::int8[], $8::int8[],
         $9::int8[], $10::int8[], $11::int8[], $12::int8[], $13::int8[], $14::int8[], $15::int8[], $16::int8[],
         $17::int8[], $18::int8[], $19::int8[], $20::int8[], $21::int8[])
         u (lane, state, rows_max, bytes_max, when_full, owner, term, arrivals, earliest, disturbed, head,
         c0, c1, c2, c3, c4, c5, c6, c7, c8, c9) WHERE l.lane = u.lane";
    pub(super) const RECORDS: &str = "UPDATE lanes l SET record_at = u.at, record = u.record
                     FROM unnest($1::int8[], $2::int8[], $3::bytea[]) u (lane, at, record) WHERE l.lane = u.lane";
    pub(super) const CHANGED_OWNERS: &str =
        "INSERT INTO owners SELECT * FROM unnest($1::int8[], $2::int8[], $3::bool[], $4::int8[])
                     ON CONFLICT (owner) DO UPDATE SET until = excluded.until, evicted = excluded.evicted,
                     taken = excluded.taken";
    pub(super) const CHANGED_STATE: &str =
        "UPDATE state SET roster = $1, stirred = $2, next_lane = $3, nodes = $4";
    // doubt.rs
    pub(super) const COUNT: &str = "INSERT INTO totals AS t VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)
    ON CONFLICT (writer) DO UPDATE SET token = excluded.token, clock = greatest(t.clock, excluded.clock),
    accepted = t.accepted + excluded.accepted, delivered = t.delivered + excluded.delivered,
    dead = t.dead + excluded.dead, coalesced = t.coalesced + excluded.coalesced,
    waiting = t.waiting + excluded.waiting, waiting_bytes = t.waiting_bytes + excluded.waiting_bytes,
    retrying = t.retrying + excluded.retrying, dead_kept = t.dead_kept + excluded.dead_kept,
    failed_attempts = t.failed_attempts + excluded.failed_attempts, latency_us = t.latency_us + excluded.latency_us";
    pub(super) const MARK: &str = "INSERT INTO marks VALUES ($1, $2, $3, $4, $5) ON CONFLICT DO NOTHING";
    // claim.rs
    pub(super) const PLAIN: &str = "SELECT lane, state, owner, term, arrivals, earliest, disturbed, head FROM lanes WHERE lane = ANY($1)";
    pub(super) const FRONT: &str =
        "SELECT delivery, at, bytes FROM deliveries WHERE lane = $1 AND state = 0 AND (at, delivery) > ($2, $3)
    ORDER BY at, delivery LIMIT $4";
    pub(super) const PARTS: &str =
        "SELECT d.delivery, d.attempts, d.expires, d.signature, e.id, e.kind, e.received, coalesce(d.body, -d.event),
    d.bytes, d.at, d.last_attempt, d.status, d.error,
    CASE WHEN d.bytes > 4096 THEN NULL WHEN d.body IS NULL THEN e.bytes ELSE b.bytes END
    FROM deliveries d LEFT JOIN events e ON e.event = d.event LEFT JOIN bodies b ON b.body = d.body
    WHERE d.delivery = ANY($1)";
    // lease.rs, nodes.rs
    pub(super) const WITH_WORK: &str =
        "SELECT lane FROM lanes WHERE waiting > 0 AND state = 0 AND (owner IS NULL OR owner <> ALL($1)) AND lane > $2
    ORDER BY lane LIMIT $3";
    pub(super) const RECORD: &str =
        "SELECT record, record_at FROM lanes WHERE lane = $1 AND record IS NOT NULL";
    pub(super) const NODE: &str =
        "SELECT name, version, protocol, address, unable, draining FROM nodes WHERE owner = $1";
    pub(super) const ANNOUNCE: &str = "INSERT INTO nodes VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
    ON CONFLICT (owner) DO UPDATE SET name = $2, version = $3, protocol = $4, address = $5, unable = $6,
    since = CASE WHEN $9 THEN nodes.since ELSE $8 END";
    pub(super) const NODES: &str =
        "SELECT n.name, n.version, n.protocol, n.address, n.unable, n.draining, n.owner, n.since,
    coalesce(o.until, 0), s.nodes, (SELECT max(clock) FROM totals)
    FROM state s LEFT JOIN nodes n ON true LEFT JOIN owners o ON o.owner = n.owner";
    // reader/outside.rs
    pub(super) const GLANCE: &str = "SELECT s.identity, s.roster, s.stirred, s.nodes, (SELECT max(clock) FROM totals),
    coalesce((SELECT delivery FROM deliveries ORDER BY delivery DESC LIMIT 1), 0), (SELECT max(id) FROM outbox)
    FROM state s";
    pub(super) const HEADS: &str =
        "SELECT u.lane, d.at FROM unnest($1::int8[]) WITH ORDINALITY u (lane, place) JOIN lanes l ON l.lane = u.lane
        CROSS JOIN LATERAL (SELECT at FROM deliveries d WHERE d.lane = u.lane AND d.state = 0 AND d.at >= l.head
            ORDER BY at, delivery LIMIT 1) d
        ORDER BY u.place";
    // latencies.rs
    pub(super) const LATENCIES: &str = "INSERT INTO latencies SELECT u.lane, u.measure, u.hour, ''::bytea
        FROM unnest($1::int8[], $2::int2[], $3::int8[]) u (lane, measure, hour)
        WHERE EXISTS (SELECT 1 FROM lanes l WHERE l.lane = u.lane) ORDER BY 1, 2, 3 ON CONFLICT DO NOTHING";
}
use statements as sql;

type Value<'a> = &'a (dyn ToSql + Sync);

/// What a lane's ten counts are, in their order.
const ACCEPTED: usize = 0;
const DELIVERED: usize = 1;
const WAITING: usize = 4;
const WAITING_BYTES: usize = 5;
const LATENCY_US: usize = 9;
/// Nothing came to wait.
const NEVER: i64 = i64::MAX;
const MINUTE: i64 = 60_000_000_000;
const PLENTY: i64 = 1_000;

/// A lane, as a commit has locked it.
#[derive(Debug)]
struct Lane {
    lane: i64,
    counts: [i64; 10],
    state: i16,
    bounds: (i64, i64, i16),
    owner: Option<i64>,
    term: i64,
    arrivals: i64,
    earliest: i64,
    disturbed: i64,
    head: i64,
}

impl Lane {
    fn read(row: &Row) -> Self {
        Self {
            lane: row.get(10),
            counts: std::array::from_fn(|place| row.get(place)),
            state: row.get(11),
            bounds: (row.get(12), row.get(13), row.get(14)),
            owner: row.get(15),
            term: row.get(16),
            arrivals: row.get(18),
            earliest: row.get(19),
            disturbed: row.get(20),
            head: row.get(21),
        }
    }

    fn arrive(&mut self, due: i64) {
        self.arrivals += 1;
        self.earliest = self.earliest.min(due);
        self.head = self.head.min(due);
    }
}

/// A delivery that is handed out.
#[derive(Clone, Debug)]
pub(crate) struct HandedOut {
    pub(crate) delivery: i64,
    pub(crate) event: String,
    pub(crate) body: Vec<u8>,
    at: i64,
}

/// A commit under way.
struct Commit {
    lanes: Vec<Lane>,
    state: [i64; 4],
    moved: [i64; 10],
    marked_minute: Option<i64>,
}

/// The node: one connection, whose statements are prepared once and for all.
pub(crate) struct OlderNode {
    runtime: tokio::runtime::Runtime,
    client: Client,
    prepared: BTreeMap<&'static str, Statement>,
    owner: i64,
    writer: i64,
    token: i64,
    now: i64,
    /// What is handed out of each lane that it has, and the term.
    hands: BTreeMap<i64, (i64, BTreeSet<i64>)>,
}

impl OlderNode {
    pub(crate) fn open(address: &str, owner: i64, now: i64) -> Self {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let connected = tokio_postgres::connect(address, tokio_postgres::NoTls);
        let (client, connection) = runtime.block_on(connected).unwrap();
        runtime.spawn(connection);
        let (prepared, hands) = (BTreeMap::new(), BTreeMap::new());
        let mut node = Self { runtime, client, prepared, owner, writer: 0, token: 0, now, hands };
        node.writer = node.ask(sql::NEW_WRITER, &[])[0].get(0);
        node
    }

    fn ask(&mut self, text: &'static str, values: &[Value<'_>]) -> Vec<Row> {
        if !self.prepared.contains_key(text) {
            let statement = self.runtime.block_on(self.client.prepare(text)).unwrap();
            self.prepared.insert(text, statement);
        }
        let statement = &self.prepared[text];
        self.runtime
            .block_on(self.client.query(statement, values))
            .unwrap_or_else(|error| panic!("{text}: {error:?}"))
    }

    fn batch(&self, text: &str) {
        self.runtime.block_on(self.client.batch_execute(text)).unwrap();
    }

    /// How many statements it has carried out so far that differ from each other.
    pub(crate) fn statements(&self) -> usize {
        self.prepared.len()
    }

    fn begin(&mut self, lanes: &[i64], owners: bool, state: bool) -> Commit {
        self.batch("BEGIN");
        let lanes = self.ask(sql::LANES, &[&lanes]).iter().map(Lane::read).collect();
        if owners {
            self.ask(sql::OWNERS, &[]);
        }
        let state = &self.ask(if state { sql::STATE_LOCKED } else { sql::STATE }, &[])[0];
        let state = std::array::from_fn(|place| state.get(place));
        let totals = &self.ask(sql::TOTALS, &[])[0];
        let mut commit = Commit { lanes, state, moved: [0; 10], marked_minute: totals.get(11) };
        // Whoever holds a lane has looked what came to wait.
        let hands = &self.hands;
        let held = commit
            .lanes
            .iter_mut()
            .filter(|lane| hands.get(&lane.lane).is_some_and(|(term, _)| *term == lane.term));
        held.for_each(|lane| lane.earliest = NEVER);
        commit
    }

    fn end(&mut self, commit: &Commit) {
        let lanes = &commit.lanes;
        if !lanes.is_empty() {
            let column = |of: fn(&Lane) -> i64| lanes.iter().map(of).collect::<Vec<i64>>();
            let states: Vec<i16> = lanes.iter().map(|lane| lane.state).collect();
            let when_full: Vec<i16> = lanes.iter().map(|lane| lane.bounds.2).collect();
            let owners: Vec<Option<i64>> = lanes.iter().map(|lane| lane.owner).collect();
            let numbers =
                [column(|lane| lane.lane), column(|lane| lane.bounds.0), column(|lane| lane.bounds.1)];
            let signs = [
                column(|lane| lane.term),
                column(|lane| lane.arrivals),
                column(|lane| lane.earliest),
                column(|lane| lane.disturbed),
                column(|lane| lane.head),
            ];
            let counts: Vec<Vec<i64>> =
                (0..10).map(|place| lanes.iter().map(|lane| lane.counts[place]).collect()).collect();
            let mut values: Vec<Value<'_>> =
                vec![&numbers[0], &states, &numbers[1], &numbers[2], &when_full, &owners];
            values.extend(signs.iter().map(|column| column as Value<'_>));
            values.extend(counts.iter().map(|column| column as Value<'_>));
            self.ask(sql::CHANGED_LANES, &values);
        }
        let minute = self.now / MINUTE;
        if commit.marked_minute.is_none_or(|marked| minute > marked) {
            self.ask(sql::MARK, &[&minute, &0_i64, &0_i64, &0_i64, &0_i64]);
        }
        self.token += 1;
        let (writer, token, now) = (self.writer, self.token, self.now);
        let mut values: Vec<Value<'_>> = vec![&writer, &token, &now];
        values.extend(commit.moved.iter().map(|count| count as Value<'_>));
        self.ask(sql::COUNT, &values);
        self.batch("COMMIT");
    }

    /// Records an event of a new id for these lanes, due now.
    pub(crate) fn emit(&mut self, lanes: &[i64], id: &str, body: &[u8]) {
        let mut commit = self.begin(lanes, false, false);
        assert_eq!(commit.lanes.len(), lanes.len());
        let event: i64 = self.ask(sql::EVENT_NUMBERS, &[&1_i64])[0].get(0);
        assert!(self.ask(sql::NAMED, &[&vec![id]]).is_empty());
        let (count, bytes) = (i64::try_from(lanes.len()).unwrap(), i64::try_from(body.len()).unwrap());
        let numbers: Vec<i64> =
            self.ask(sql::DELIVERY_NUMBERS, &[&count]).iter().map(|row| row.get(0)).collect();
        let now = self.now;
        for lane in &mut commit.lanes {
            for (place, by) in [(ACCEPTED, 1), (WAITING, 1), (WAITING_BYTES, bytes)] {
                lane.counts[place] += by;
                commit.moved[place] += by;
            }
            lane.arrive(now);
        }
        let list = format!("{{{}}}", numbers.iter().map(i64::to_string).collect::<Vec<_>>().join(","));
        let (kind, none) = ("video.trending", None::<&str>);
        self.ask(
            sql::NEW_EVENTS,
            &[
                &vec![event],
                &vec![id],
                &vec![kind],
                &vec![none],
                &vec![now],
                &vec![false],
                &vec![numbers[0]],
                &vec![(numbers.len() > 1).then_some(list)],
                &vec![none],
                &vec![Some(7_i64)],
                &vec![Some(body)],
            ],
        );
        let all = |value: i64| vec![value; numbers.len()];
        let (expires, nothing) = (now + 86_400_000_000_000, vec![None::<i64>; numbers.len()]);
        let (reasons, texts) = (vec![None::<i16>; numbers.len()], vec![none; numbers.len()]);
        let (numbers, lanes, states): (_, Vec<i64>, _) =
            (&numbers, commit.lanes.iter().map(|lane| lane.lane).collect(), vec![0_i16; numbers.len()]);
        self.ask(
            sql::NEW_DELIVERIES,
            &[
                numbers,
                &lanes,
                &all(event),
                &nothing,
                &all(bytes),
                &states,
                &all(now),
                &all(expires),
                &all(expires - now),
                &reasons,
                &texts,
                &texts,
            ],
        );
        self.end(&commit);
    }

    /// What waits on a lane that it has, and is not handed out.
    pub(crate) fn claim(&mut self, lane: i64) -> Vec<HandedOut> {
        let (term, held) = self.hands[&lane].clone();
        let plain = &self.ask(sql::PLAIN, &[&vec![lane]])[0];
        let (owner, current, head): (Option<i64>, i64, i64) = (plain.get(2), plain.get(3), plain.get(7));
        assert_eq!((owner, current), (Some(self.owner), term), "the lane is its own");
        let found = self.ask(sql::FRONT, &[&lane, &head, &0_i64, &PLENTY]);
        let due: Vec<i64> = found.iter().map(|row| row.get(0)).filter(|one| !held.contains(one)).collect();
        let parts = self.ask(sql::PARTS, &[&due]);
        assert_eq!(parts.len(), due.len());
        self.hands.get_mut(&lane).unwrap().1.extend(&due);
        let handed_out = |row: &Row| HandedOut {
            delivery: row.get(0),
            event: row.get::<_, Option<String>>(4).expect("its event is there"),
            body: row.get::<_, Option<Vec<u8>>>(13).expect("its body is there"),
            at: row.get(9),
        };
        parts.iter().map(handed_out).collect()
    }

    /// All these were delivered by the first attempt.
    pub(crate) fn deliver(&mut self, lane: i64, handed_out: &[HandedOut]) {
        let mut commit = self.begin(&[lane], false, false);
        let named: Vec<i64> = handed_out.iter().map(|one| one.delivery).collect();
        let rows = self.ask(sql::DELIVERIES, &[&named]);
        assert_eq!(rows.len(), named.len());
        let (count, now) = (named.len(), self.now);
        let bytes: i64 = rows.iter().map(|row| row.get::<_, i64>(4)).sum();
        assert!(rows.iter().all(|row| row.get::<_, i16>(2) == 0), "they wait until they are settled");
        let delivered = i64::try_from(count).unwrap();
        let moves = [
            (DELIVERED, delivered),
            (WAITING, -delivered),
            (WAITING_BYTES, -bytes),
            (LATENCY_US, 20_000 * delivered),
        ];
        for (place, by) in moves {
            commit.lanes[0].counts[place] += by;
            commit.moved[place] += by;
        }
        let hand = &mut self.hands.get_mut(&lane).unwrap().1;
        hand.retain(|delivery| !named.contains(delivery));
        if hand.is_empty() && commit.lanes[0].counts[WAITING] == 0 {
            // Nothing that waits is due sooner than what was looked at last.
            let seen = handed_out.iter().map(|one| one.at).max().unwrap_or(0);
            commit.lanes[0].head = commit.lanes[0].head.max(seen);
        }
        let all = |value: i64| vec![value; count];
        let (nothing, none) = (vec![None::<i64>; count], vec![None::<&str>; count]);
        let (statuses, reasons) = (vec![Some(204_i32); count], vec![None::<i16>; count]);
        let kinds = vec![0_i16; count];
        let last = vec![Some(now); count];
        let states = vec![1_i16; count];
        self.ask(
            sql::CHANGED_DELIVERIES,
            &[&named, &states, &all(now), &all(1), &last, &statuses, &none, &reasons],
        );
        self.ask(
            sql::NEW_ATTEMPTS,
            &[
                &all(now),
                &named,
                &all(lane),
                &all(1),
                &all(20_000_000),
                &kinds,
                &statuses,
                &none,
                &all(7),
                &nothing,
                &vec![false; count],
            ],
        );
        self.ask(sql::LATENCIES, &[&vec![lane], &vec![0_i16], &vec![0_i64]]);
        self.end(&commit);
    }

    /// Takes a lane that is free.
    pub(crate) fn acquire(&mut self, lane: i64, until: i64) {
        let mut commit = self.begin(&[lane], true, false);
        self.ask(sql::WITH_WORK, &[&vec![self.owner], &0_i64, &PLENTY]);
        self.ask(sql::RECORD, &[&lane]);
        let found = &mut commit.lanes[0];
        assert_eq!(found.owner, None, "lane {lane} is free");
        (found.owner, found.term) = (Some(self.owner), found.term + 1);
        self.hands.insert(lane, (found.term, BTreeSet::new()));
        self.ask(sql::CHANGED_OWNERS, &[&vec![self.owner], &vec![until], &vec![false], &vec![0_i64]]);
        self.end(&commit);
    }

    /// Lets go of a lane of which nothing is handed out.
    pub(crate) fn hand_back(&mut self, lane: i64) {
        let mut commit = self.begin(&[lane], false, true);
        let (term, held) = self.hands.remove(&lane).unwrap();
        assert!(held.is_empty());
        let found = &mut commit.lanes[0];
        assert_eq!((found.owner, found.term), (Some(self.owner), term));
        found.owner = None;
        self.ask(sql::RECORDS, &[&vec![lane], &vec![self.now], &vec![b"of the older".as_slice()]]);
        let [roster, stirred, next_lane, nodes] = commit.state;
        self.ask(sql::CHANGED_STATE, &[&roster, &stirred, &next_lane, &(nodes + 1)]);
        self.end(&commit);
    }

    /// Renews its lease as a node, and looks around: how many nodes there are.
    pub(crate) fn renew(&mut self, until: i64) -> usize {
        let commit = self.begin(&[], true, true);
        let (owner, now, nothing) = (self.owner, self.now, None::<&str>);
        if self.ask(sql::NODE, &[&owner]).is_empty() {
            let values: [Value<'_>; 9] =
                [&owner, &"older", &"0.1.0", &1_i64, &nothing, &Vec::<i64>::new(), &false, &now, &false];
            self.ask(sql::ANNOUNCE, &values);
            let [roster, stirred, next_lane, nodes] = commit.state;
            self.ask(sql::CHANGED_STATE, &[&roster, &stirred, &next_lane, &(nodes + 1)]);
        }
        self.ask(sql::CHANGED_OWNERS, &[&vec![self.owner], &vec![until], &vec![false], &vec![0_i64]]);
        let nodes = self.ask(sql::NODES, &[]);
        self.end(&commit);
        nodes.iter().filter(|node| node.get::<_, Option<i64>>(6).is_some()).count()
    }

    /// Looks what others did: the last delivery, and when the first of a lane is due.
    pub(crate) fn look(&mut self, lane: i64) -> (i64, Option<i64>) {
        let last = self.ask(sql::GLANCE, &[])[0].get(5);
        let heads = self.ask(sql::HEADS, &[&vec![lane]]);
        assert!(heads.len() <= 1, "a lane has one row");
        (last, heads.first().map(|row| row.get(1)))
    }
}
