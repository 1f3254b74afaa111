! What a Fortran program needs of the C interface: opening a pipeline file, taking its batches. `docs/languages.md` has the words.
module forebay
  use, intrinsic :: iso_c_binding
  implicit none
  public

  integer(c_int), parameter :: FBY_OK = 0, FBY_END = 1

  type, bind(c) :: fby_error
    integer(c_int) :: code, sys_errno
    integer(c_int64_t) :: file_offset
    character(kind=c_char) :: message(1000)
  end type

  type, bind(c) :: fby_tensor
    type(c_ptr) :: output, role
    integer(c_int) :: dtype
    integer(c_int32_t) :: ndim
    integer(c_int64_t) :: shape(8)
    type(c_ptr) :: data
    integer(c_size_t) :: bytes
  end type

  interface
    integer(c_int) function fby_pipeline_open(path, opts, pipeline, err) bind(c)
      import
      character(kind=c_char), intent(in) :: path(*)
      type(c_ptr), value :: opts
      type(c_ptr), intent(out) :: pipeline
      type(fby_error), intent(inout) :: err
    end function

    integer(c_int) function fby_pipeline_loader(pipeline, split, loader, err) bind(c)
      import
      type(c_ptr), value :: pipeline, split
      type(c_ptr), intent(out) :: loader
      type(fby_error), intent(inout) :: err
    end function

    integer(c_int) function fby_loader_next(loader, timeout_ns, batch, err) bind(c)
      import
      type(c_ptr), value :: loader
      integer(c_int64_t), value :: timeout_ns
      type(c_ptr), intent(out) :: batch
      type(fby_error), intent(inout) :: err
    end function

    type(c_ptr) function fby_batch_tensor(batch, i) bind(c)
      import
      type(c_ptr), value :: batch
      integer(c_size_t), value :: i
    end function

    type(c_ptr) function fby_dtype_name(dtype) bind(c)
      import
      integer(c_int), value :: dtype
    end function

    subroutine fby_batch_unref(batch) bind(c)
      import
      type(c_ptr), value :: batch
    end subroutine

    subroutine fby_loader_close(loader) bind(c)
      import
      type(c_ptr), value :: loader
    end subroutine

    subroutine fby_pipeline_close(pipeline) bind(c)
      import
      type(c_ptr), value :: pipeline
    end subroutine
  end interface

contains

  !> A text of the library, up to its NUL.
  function text(c) result(out)
    character(kind=c_char), intent(in) :: c(:)
    character(:), allocatable :: out
    integer :: i
    out = ''
    do i = 1, size(c)
      if (c(i) == c_null_char) exit
      out = out // c(i)
    end do
  end function
end module
