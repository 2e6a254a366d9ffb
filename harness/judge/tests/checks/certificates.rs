use hookproof_judge::check::Status;
use hookproof_judge::scenario::Certificate;
use hookproof_judge::trace::{Lack, ShownCertificate, Trace};

use crate::build::{check, without};

const WRONG: &str = "retry = { ttl = \"5min\" }\n[[subscriber.behaviour]]\nlasts = \"1500ms\"\n\
                     answer = \"wrong-certificate\"\ncertificate = \"expired\"";

fn show(trace: &mut Trace, connection: u64, certificate: Certificate, refused: bool) {
    let refused = refused.then(|| "received fatal alert: CertificateExpired".to_owned());
    let shown = ShownCertificate { t: 0, endpoint: "a".to_owned(), connection, certificate, refused };
    trace.reached.certificates.push(shown);
}

#[test]
fn no_request_comes_on_a_connection_with_a_wrong_certificate() {
    let expired = Certificate::Expired;
    let verified = |change: &dyn Fn(&mut Trace), expected| check("tls.verified", WRONG, change, expected);
    verified(&|trace| show(trace, 90, expired, true), Status::Pass);
    // A sender may look at the certificate after the handshake.
    verified(&|trace| show(trace, 90, expired, false), Status::Pass);
    // The second request has this connection.
    verified(&|trace| show(trace, 1, expired, false), Status::Fail);
    verified(&|_| {}, Status::Inconclusive);
    verified(&|trace| show(trace, 90, Certificate::SelfSigned, true), Status::Inconclusive);
    let lost = |trace: &mut Trace| {
        show(trace, 90, expired, true);
        without(trace, 0);
    };
    verified(&lost, Status::Fail);
    // A sender that does not tell what waits may have been about to send it.
    let outstanding = |trace: &mut Trace| {
        lost(trace);
        trace.declared.lacks.push(Lack::Depth);
    };
    verified(&outstanding, Status::Inconclusive);
    check("tls.verified", "", |_| {}, Status::NotApplicable);
}
