cmake_minimum_required(VERSION 3.25)
# cmake -D SOURCE=DIR -D OUT=FILE -P Revision.cmake
# Writes the revision of a git checkout as a header: empty elsewhere, with '+' where files were changed.
execute_process(COMMAND git -C "${SOURCE}" describe --always --dirty=+ --exclude=*
                OUTPUT_VARIABLE _revision ERROR_QUIET OUTPUT_STRIP_TRAILING_WHITESPACE)
file(CONFIGURE OUTPUT "${OUT}" CONTENT "#define FOREGATHER_REVISION \"@_revision@\"\n" @ONLY)
