# One epoch of a pipeline file in R: the mean of every column of its first output.
#
#     Rscript mean.R ./forebay.so basins.yaml
args <- commandArgs(trailingOnly = TRUE)
dyn.load(args[1])
loader <- .Call("forebay_open", args[2], NULL)
total <- 0
n <- 0
while (!is.null(batch <- .Call("forebay_next", loader))) {
  x <- batch[[1]]
  total <- total + rowSums(x)
  n <- n + ncol(x)
}
cat(format(total / n, digits = 9), "\n")
