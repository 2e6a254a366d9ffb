mod delivers;
mod sink;
mod start;
