<?php
// A small receiver of Standard Webhooks in PHP, with SQLite as its inbox, for PHP-FPM or mod_php behind a web server that
// bounds the size and the time of requests (nginx: client_max_body_size 2m; client_body_timeout 10s).
//
//     SetEnv HOOK_SECRET whsec_…      INBOX /var/lib/hook/inbox.db
//
// What matters: the body is verified as raw bytes before anything parses it; signatures are compared in constant time; the
// delivery is committed before it is acknowledged; its id is taken once. Real work is done by another process, which reads
// the rows that are not done.

declare(strict_types=1);

const TOLERANCE_SECONDS = 300;

function answer(int $status, string $line, array $headers = []): never
{
    http_response_code($status);
    header('Content-Type: text/plain');
    foreach ($headers as $header) {
        header($header);
    }
    echo $status === 204 ? '' : "$line\n";
    exit;
}

// PHP joins a header that came twice with a comma: none of the patterns below takes that.
function value(string $name): ?string
{
    $value = $_SERVER['HTTP_' . strtoupper(strtr($name, '-', '_'))] ?? '';
    return preg_match('/\A[\x20-\x7e]+\z/', $value) ? $value : null;
}

function genuine(string $body, string $key): ?string
{
    [$id, $timestamp, $signatures] = array_map(value(...), ['webhook-id', 'webhook-timestamp', 'webhook-signature']);
    if ($id === null || $timestamp === null || $signatures === null) {
        return null;
    }
    // No comma, which would be two headers in one; no point, which parts what is signed.
    if (!preg_match('/\A[\x21-\x2b\x2d\x2f-\x7e]{1,256}\z/', $id) || !preg_match('/\A[1-9][0-9]{0,14}\z/', $timestamp)) {
        return null;
    }
    if (abs(time() - (int) $timestamp) > TOLERANCE_SECONDS) {
        return null;
    }
    $expected = base64_encode(hash_hmac('sha256', "$id.$timestamp.$body", $key, true));
    foreach (explode(' ', $signatures) as $one) {
        // Compared as written: another spelling of the same bytes is refused.
        if (str_starts_with($one, 'v1,') && hash_equals($expected, substr($one, 3))) {
            return $id;
        }
    }
    return null;
}

if ($_SERVER['REQUEST_METHOD'] !== 'POST') {
    answer(405, 'expected POST', ['Allow: POST']);
}
$key = base64_decode(substr((string) getenv('HOOK_SECRET'), strlen('whsec_')), true);
if ($key === false || strlen($key) < 24) {
    error_log('HOOK_SECRET is not whsec_ and base64');
    answer(503, 'come back later', ['Retry-After: 60']);
}
$body = (string) file_get_contents('php://input');
$id = genuine($body, $key);
if ($id === null) {
    answer(401, 'not genuine');
}
try {
    $inbox = new PDO('sqlite:' . (getenv('INBOX') ?: 'inbox.db'), options: [PDO::ATTR_ERRMODE => PDO::ERRMODE_EXCEPTION]);
    $inbox->exec('PRAGMA busy_timeout = 5000; PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL');
    $inbox->exec('CREATE TABLE IF NOT EXISTS inbox (id TEXT PRIMARY KEY, body BLOB NOT NULL, done INTEGER NOT NULL DEFAULT 0)');
    $insert = $inbox->prepare('INSERT INTO inbox (id, body) VALUES (?, ?) ON CONFLICT (id) DO NOTHING');
    $insert->bindValue(1, $id);
    $insert->bindValue(2, $body, PDO::PARAM_LOB);
    $insert->execute();
} catch (PDOException $problem) {
    error_log($problem->getMessage());
    answer(503, 'come back later', ['Retry-After: 5']);
}
answer(204, '');
