<?php
// A verification function for Standard Webhooks in PHP, and around it a command for `hookproof receiver --exec`.
//
//     hookproof receiver --exec 'php verify.php' --secret-env HOOK_SECRET
//
// The command reads one raw HTTP request from stdin, and the secret from HOOK_SECRET. Exit code 0: genuine; 1: not genuine.

declare(strict_types=1);

const TOLERANCE_SECONDS = 300;

/** @param array<string, list<string>> $headers the values of each name, in lower case */
function genuine(array $headers, string $body, string $key): bool
{
    $one = static function (string $name, string $form) use ($headers): ?string {
        $values = $headers[$name] ?? [];
        return count($values) === 1 && preg_match($form, $values[0]) ? $values[0] : null;
    };
    // Visible ASCII. A dot separates the signed parts, so none may be in an id.
    $id = $one('webhook-id', '/\A[\x21-\x2d\x2f-\x7e]{1,256}\z/');
    $timestamp = $one('webhook-timestamp', '/\A[1-9][0-9]{0,14}\z/');
    $signatures = $one('webhook-signature', '/\A[\x20-\x7e]+\z/');
    if ($id === null || $timestamp === null || $signatures === null) {
        return false;
    }
    if (abs(time() - (int) $timestamp) > TOLERANCE_SECONDS) {
        return false;
    }
    // Compared as written, so that another spelling of the same bytes is refused.
    $expected = 'v1,' . base64_encode(hash_hmac('sha256', "$id.$timestamp.$body", $key, true));
    foreach (explode(' ', $signatures) as $signature) {
        if (hash_equals($expected, $signature)) {
            return true;
        }
    }
    return false;
}

/** @return array{array<string, list<string>>, string} */
function parsed(string $request): array
{
    [$head, $body] = explode("\r\n\r\n", $request, 2) + ['', ''];
    $headers = [];
    foreach (array_slice(explode("\r\n", $head), 1) as $line) {
        [$name, $value] = explode(':', $line, 2) + ['', ''];
        $headers[strtolower($name)][] = trim($value, " \t");
    }
    return [$headers, $body];
}

$secret = base64_decode(substr((string) getenv('HOOK_SECRET'), strlen('whsec_')), true);
if ($secret === false || strlen($secret) < 24) {
    fwrite(STDERR, "HOOK_SECRET is not whsec_ and base64\n");
    exit(2);
}
[$headers, $body] = parsed((string) file_get_contents('php://stdin'));
exit(genuine($headers, $body, $secret) ? 0 : 1);
