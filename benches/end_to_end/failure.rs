#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    #[error(transparent)]
    Io(#[from] std::io::Error),
    #[error(transparent)]
    Http(#[from] hyper::Error),
    #[error(transparent)]
    File(#[from] rusqlite::Error),
    #[error("PostgreSQL: {0}")]
    Server(#[from] tokio_postgres::Error),
    #[error("{0}")]
    Says(String),
}
